// Resolves a path to a checkpoint.
#include "libtrain/checkpoint/named.h"

#include "libtrain/base/advice.h"
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/latest_whole.h"

#include <filesystem>

namespace trainyard::checkpoint {

std::string named_checkpoint(const std::string& path) {
  namespace fs = std::filesystem;
  if (!base::exists(path))
    throw base::InputError(fmt::format("{}: no such checkpoint or run", path),
                           "give the folder of a checkpoint, or a run's folder");
  if (!base::is_folder(path))
    throw base::InputError(fmt::format("{} is a file, not the folder of a checkpoint or of a run", path),
                           "give the folder; of a run's the newest whole checkpoint is taken");
  if (base::exists(path + "/manifest.json")) return path;
  for (const auto& folder : {fs::path(path) / "checkpoints", fs::path(path)})
    if (const auto found = find_latest_whole(folder.string(), Verify::metadata)) return found.path;
  const auto foreign = base::advice().on_folder(path);
  throw base::InputError(fmt::format("{}: holds no whole checkpoint", path),
                         foreign.empty() ? "inspect " + path + " shows what is there" : foreign);
}

}  // namespace trainyard::checkpoint
