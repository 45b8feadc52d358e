// One small file, written by a process that is about to end.
#include "libtrain/comm/reason.h"

#include "libtrain/base/descriptor.h"
#include "libtrain/base/here_and_now.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace trainyard::comm {

namespace {

bool has_its_name(const std::string& name) {
  return name.size() >= 15 && name.rfind("rank-", 0) == 0 && name.substr(name.size() - 5) == ".json" &&
         name.find_first_not_of("0123456789", 5) == name.size() - 5;
}

// Opens the folder itself, not through a link, which would lead elsewhere.
base::Descriptor opened(const std::string& folder) {
  return base::Descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

// Recognises a reason by its name and by what this program writes into it. An empty file counts too: a full disk took
// its text.
bool is_reason(int folder, const std::string& name) {
  if (!has_its_name(name)) return false;
  const base::Descriptor file(openat(folder, name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (!file.is_open() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  std::string text(4096, '\0');
  const auto n = pread(file.get(), text.data(), text.size(), 0);
  return n == 0 || (n > 0 && text.find("\"exit_code\"") != std::string::npos);
}

}  // namespace

void write_reason(const std::string& folder, int rank, int exit_code, const std::string& reason) noexcept {
  try {
    nlohmann::ordered_json j{{"rank", rank},
                             {"host", base::host_name()},
                             {"exit_code", exit_code},
                             {"reason", reason},
                             {"time", base::utc_now()}};
    const char *job = std::getenv("SLURM_JOB_ID"), *step = std::getenv("SLURM_STEP_ID");
    if (job != nullptr) j["job"] = step != nullptr ? fmt::format("{}.{}", job, step) : job;
    const auto text = j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    mkdir(folder.c_str(), 0777);
    // Makes a new file: a link would lead elsewhere, and a pipe would wait for a reader.
    const auto place = opened(folder);
    const auto name = fmt::format("rank-{:05}.json", rank);
    unlinkat(place.get(), name.c_str(), 0);
    const base::Descriptor file(
        openat(place.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (file.is_open()) base::write_all(file.get(), text);
  } catch (const std::exception&) {
    // What ended the rank is on stderr already; a second failure would hide it.
  }
}

void forget_reasons(const std::string& folder) {
  const auto place = opened(folder);
  if (!place.is_open()) return;
  std::vector<std::string> names;
  std::error_code ignored;
  for (std::filesystem::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored))
    names.push_back(it->path().filename().string());
  for (const auto& name : names)
    if (is_reason(place.get(), name)) unlinkat(place.get(), name.c_str(), 0);
  rmdir(folder.c_str());  // fails if the folder holds anything else
}

}  // namespace trainyard::comm
