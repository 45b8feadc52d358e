// Looks at lock, exit reasons and names of checkpoints.
#include "libtrain/engine/run_status.h"

#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/engine/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sys/stat.h>
#include <utility>

namespace trainyard::engine {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t largest_reason = 1 << 20;

// Sorted by name, and so by rank.
std::vector<std::string> reason_files(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (fs::directory_iterator it(folder + "/exit", error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with("rank-") && it->path().extension() == ".json")
      files.push_back(it->path().string());
  std::sort(files.begin(), files.end());
  return files;
}

ExitReason reason_of(const std::string& file) {
  try {
    const auto json = base::parse_json(base::read_file(file, largest_reason), file);
    base::JsonObject object(json, file);
    return {static_cast<int>(object.integer("exit_code", 1, 255)), static_cast<int>(object.integer("rank", 0, 1 << 30)),
            object.text("host"), object.text("reason")};
  } catch (const base::InputError&) {
    return {};  // the file is being written
  }
}

}  // namespace

std::vector<ExitReason> exit_reasons(const std::string& folder) {
  std::vector<ExitReason> out;
  for (const auto& file : reason_files(folder))
    if (auto reason = reason_of(file); reason.exit_code != 0) out.push_back(std::move(reason));
  return out;
}

RunStatus status_of(const std::string& folder) {
  RunStatus status;
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) base::throw_cannot_read("look at", folder, errno);
    return status;
  }
  if (!S_ISDIR(info.st_mode)) base::throw_cannot_read("look into", folder, ENOTDIR);
  const auto lock = base::FolderLock::look(folder);  // first, so that all that an ending run left is seen
  status.holder = lock.name;
  const auto found = checkpoint::list(checkpoints_folder(folder));
  if (!found.empty()) {
    status.newest = found.front().path;
    status.newest_step = found.front().step;
    if (::stat((status.newest + "/manifest.json").c_str(), &info) == 0)
      status.newest_time = base::utc_text(info.st_mtim.tv_sec);
  }
  if (const auto files = reason_files(folder); !files.empty()) status.exit = reason_of(files.front());
  const bool written = !found.empty() || ::stat((folder + "/metrics.jsonl").c_str(), &info) == 0;
  using Stage = RunStatus::Stage;
  if (lock.use == base::FolderLock::Use::unknown) status.stage = Stage::unknown;
  else if (lock.use == base::FolderLock::Use::somebody) status.stage = Stage::running;
  else status.stage = written || !lock.name.empty() || status.exit.exit_code != 0 ? Stage::quiet : Stage::waiting;
  return status;
}

std::int64_t steps_of(const std::string& checkpoint) {
  try {
    const auto where = checkpoint + "/manifest.json";
    const auto json = base::parse_json<nlohmann::json>(base::read_file(where), where);
    base::SortedJsonObject manifest(json, where);
    return manifest.object("identity").integer("steps", 0);
  } catch (const base::InputError&) {
    return 0;
  }
}

}  // namespace trainyard::engine
