// Leaves words out and quotes the rest.
#include "tools/train/command.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace trainyard::tools {

namespace {

constexpr std::array<std::string_view, 2> of_one_start{"--stop-after", "--resume"};

std::string quoted(const std::string& word) {
  constexpr auto plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') out.append("'\\'");  // out of the quotes, one of its own, and in again
    out.push_back(c);
  }
  out.push_back('\'');
  return out;
}

}  // namespace

std::string command_to_go_on(const std::vector<std::string>& words, Lasting lasting, const std::string& resume) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    bool leave_out = false;
    for (const auto flag : of_one_start) leave_out |= std::string_view(words[i]).substr(0, equals) == flag;
    if (leave_out) {
      if (equals == std::string::npos) ++i;  // and its value
      continue;
    }
    if (!out.empty()) out.push_back(' ');
    out.append(quoted(words[i]));
  }
  if (lasting.stop_after) out.append(" --stop-after 0");
  if (lasting.resume || !resume.empty()) out.append(" --resume " + quoted(resume.empty() ? "auto" : resume));
  return out;
}

std::string launcher_words(int ranks) {
  const bool srun = std::getenv("SLURM_STEP_ID") != nullptr;
  return ranks == 1 ? "" : fmt::format("{} -n {} ", srun ? "srun --mpi=pmix --kill-on-bad-exit=1" : "mpirun", ranks);
}

}  // namespace trainyard::tools
