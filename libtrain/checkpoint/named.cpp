// From a path to a checkpoint.
#include "libtrain/checkpoint/named.h"

#include "libtrain/base/error.h"
#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/finder.h"

#include <filesystem>

namespace trainyard::checkpoint {

std::string named_checkpoint(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto there = [&](const fs::path& at) {
    const bool found = fs::exists(at, error);
    if (base::is_unreadable(error.value())) base::throw_cannot_read("look at", at.string(), error.value());
    return found;
  };
  if (!there(path))
    throw base::InputError(fmt::format("{}: no such checkpoint or run", path),
                           "give the folder of a checkpoint, or a run's folder");
  const bool folder = fs::is_directory(path, error);
  if (base::is_unreadable(error.value())) base::throw_cannot_read("look at", path, error.value());
  if (!folder)
    throw base::InputError(fmt::format("{} is a file, not the folder of a checkpoint or of a run", path),
                           "give the folder; of a run's the newest whole checkpoint is taken");
  if (there(fs::path(path) / "manifest.json")) return path;
  for (const auto& folder : {fs::path(path) / "checkpoints", fs::path(path)})
    if (const auto found = find_latest_whole(folder.string(), Verify::metadata)) return found.path;
  throw base::InputError(fmt::format("{}: holds no whole checkpoint", path),
                         "inspect " + path + " shows what is there");
}

}  // namespace trainyard::checkpoint
