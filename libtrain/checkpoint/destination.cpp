// Checks destinations.
#include "libtrain/checkpoint/destination.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/owned.h"
#include "libtrain/base/setting_text.h"

#include <filesystem>

namespace trainyard::checkpoint {

namespace fs = std::filesystem;

namespace {

std::int64_t bytes_left_at(const std::string& folder) {
  std::error_code error;
  const auto space = fs::space(folder, error);
  return error ? std::int64_t{-1} : static_cast<std::int64_t>(space.available);  // -1: unknown
}

bool is_run(const fs::path& folder) {
  std::error_code error;
  for (const char* mark : {"metrics.jsonl", "last-checkpoint"})
    if (fs::exists(fs::symlink_status(folder / mark, error))) return true;
  return base::FolderLock::is_there(folder.string());  // other programs have files of that name, too
}

}  // namespace

bool is_in(const std::string& path, const std::string& folder) {
  std::error_code error;
  // weakly_canonical makes no absolute path of a relative one if nothing of it exists yet.
  const auto whole = [&](const std::string& p) { return fs::weakly_canonical(base::absolute_path(p), error); };
  return base::is_within(whole(path), whole(base::without_slashes(folder)));
}

void require_outside(const std::string& path, const std::vector<std::string>& sources) {
  for (const auto& source : sources)
    if (is_in(path, source))
      throw base::UsageError(fmt::format("{} is or lies in {}, which is an input", path, source), "give another place");
}

// Checks the path as written and with links followed, because the folder of a run may be a link, and so may its
// `checkpoints`.
void require_outside_of_runs(const std::string& path) {
  std::error_code error;
  const auto absolute = base::absolute_path(base::without_slashes(path));
  for (const auto& whole : {absolute.lexically_normal(), fs::weakly_canonical(absolute, error)})
    for (auto folder = whole; folder.has_relative_path(); folder = folder.parent_path())
      if (folder.filename() == "checkpoints" && is_run(folder.parent_path()))
        throw base::UsageError(
            fmt::format("{} is or lies in the checkpoints of the run {}, where only that run may write", path,
                        folder.parent_path().string()),
            base::text("give another place: $resume takes a checkpoint from any folder"));
}

void require_name_of_something_whole(const std::string& path) {
  if (const auto name = base::without_slashes(path); name.ends_with(base::partial_suffix))
    throw base::UsageError(fmt::format("{} is a name that these programs give to unfinished folders", name),
                           "give another name");
}

void require_room(const std::string& folder, const std::string& path, std::int64_t bytes,
                  const std::function<std::int64_t(const std::string&)>& free_bytes) {
  const auto left = free_bytes ? free_bytes(folder) : bytes_left_at(folder);
  if (left < 0 || left >= bytes) return;
  throw base::EnvironmentError(
      fmt::format("{} needs {}, but the disk has room for {}: {} are missing", path, base::size_text(bytes),
                  base::size_text(left), base::size_text(bytes - left)),
      "make room, or give a place on another disk; nothing was written");
}

}  // namespace trainyard::checkpoint
