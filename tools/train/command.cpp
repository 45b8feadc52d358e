// Leaves out flags of one start and quotes the remaining words.
#include "tools/train/command.h"

#include "libtrain/base/environment.h"
#include "tools/common/launcher.h"

#include <fmt/format.h>

#include <algorithm>
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
    if (c == '\'') out.append("'\\'");  // closes the quotes, adds an escaped one, and opens them again
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
      if (equals == std::string::npos) ++i;  // skips its value
      continue;
    }
    if (!out.empty()) out.push_back(' ');
    out.append(quoted(words[i]));
  }
  if (lasting.stop_after) out.append(" --stop-after 0");
  if (lasting.resume || !resume.empty()) out.append(" --resume " + quoted(resume.empty() ? "auto" : resume));
  return out;
}

std::vector<std::string> variables_in_effect(const std::vector<base::Field>& fields) {
  std::vector<std::string> out;
  for (const auto& f : fields) {
    const auto one_start = std::find(of_one_start.begin(), of_one_start.end(), "--" + f.name) != of_one_start.end();
    if (f.source == base::from_environment && !one_start)
      for (const auto& name : f.names())
        if (const auto variable = base::variable_of(name); std::getenv(variable.c_str()) != nullptr)
          out.push_back(variable);
  }
  for (auto& name : base::other_variables_of_a_run()) out.push_back(std::move(name));
  return out;
}

std::string launcher_words(int ranks, const std::vector<std::string>& variables) {
  std::string out, handed_on;
  for (const auto& name : variables) {
    const char* value = std::getenv(name.c_str());
    out += fmt::format("{}={} ", name, quoted(value == nullptr ? "" : value));
    handed_on += fmt::format(" -x {}", name);
  }
  if (ranks == 1) return out;
  return out +
         fmt::format("{} -n {} ", by_srun() ? "srun --mpi=pmix --kill-on-bad-exit=1" : "mpirun" + handed_on, ranks);
}

}  // namespace trainyard::tools
