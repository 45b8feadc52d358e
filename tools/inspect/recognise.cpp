// Finding out what a path is.
#include "libtrain/base/error.h"
#include "libtrain/checkpoint/finder.h"
#include "tools/inspect/report.h"

#include <filesystem>

namespace trainyard::inspect {

namespace fs = std::filesystem;

namespace {

// Shards that somebody wrote without an index lie in the folder itself or in train/.
bool holds_shards(const fs::path& folder) {
  std::error_code error;
  for (const auto& place : {folder, folder / "train"})
    for (fs::directory_iterator it(place, error), end; !error && it != end; it.increment(error))
      if (it->path().extension() == ".h5") return true;
  return false;
}

}  // namespace

Report report_on(const std::string& path, const Options& options) {
  std::error_code error;
  const fs::path p(path);
  if (!fs::exists(p, error)) throw base::InputError(fmt::format("{} does not exist or cannot be looked at", path), "check the path");
  if (!fs::is_directory(p, error)) {
    const auto parent = p.parent_path().empty() ? std::string(".") : p.parent_path().string();
    if (p.filename() == "manifest.json") return checkpoint_report(parent, options);
    if (p.filename() == "index.json") return shards_report(parent, options);
    if (p.filename() == "metrics.jsonl") return run_report(parent, options);
    if (p.extension() == ".jsonl") return metrics_report(path, options);   // set aside, or copied
    if (p.extension() == ".h5")
      throw base::InputError(fmt::format("{} is one file of a checkpoint or shard set", path), fmt::format("inspect its folder: inspect {}", parent));
    return plan_report(path);
  }
  if (fs::exists(p / "manifest.json", error) || fs::exists(p / "rank-00000.h5", error) || path.ends_with(".partial")) return checkpoint_report(path, options);
  if (fs::exists(p / "index.json", error)) return shards_report(path, options);
  if (fs::exists(p / "metrics.jsonl", error) || fs::is_directory(p / "checkpoints", error)) return run_report(path, options);
  if (!checkpoint::list(path).empty() || !checkpoint::list_abandoned(path).empty()) return checkpoints_report(path, options);
  if (holds_shards(p)) return shards_report(path, options);
  if (fs::is_empty(p, error)) throw base::InputError(fmt::format("{} is an empty folder", path), "give a checkpoint, a run, a shard set or a plan");
  throw base::InputError(fmt::format("{} holds neither manifest.json (a checkpoint), index.json (shards), nor metrics.jsonl or checkpoints/ (a run)", path),
                         "give a checkpoint, a run, a shard set or a plan");
}

}  // namespace trainyard::inspect
