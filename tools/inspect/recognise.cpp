// Recognises what a path is.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/plan/spec/presets.h"
#include "tools/common/foreign_files.h"
#include "tools/inspect/report.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

namespace trainyard::inspect {

namespace fs = std::filesystem;

namespace {

// Shards written without an index lie in the folder itself or in train/.
bool holds_shards(const fs::path& folder) {
  std::error_code error;
  for (const auto& place : {folder, folder / "train"})
    for (fs::directory_iterator it(place, error), end; !error && it != end; it.increment(error))
      if (it->path().extension() == ".h5") return true;
  return false;
}

// Plans and profiles are JSON objects, whatever their names. A path that is no file, or cannot be opened, is left to
// the reader's error.
bool looks_like_json(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return true;
  std::ifstream in(path, std::ios::binary);
  char first = '{';
  for (int skipped = 0; skipped < 4096 && in.get(first) && std::isspace(static_cast<unsigned char>(first)) != 0;)
    ++skipped;
  return first == '{' || first == '[';
}

// A trace of these or other programs: its beginning has names that only traces have.
bool looks_like_trace(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::string begins(4096, ' ');
  std::ifstream in(path, std::ios::binary);
  in.read(begins.data(), static_cast<std::streamsize>(begins.size()));
  begins.resize(static_cast<std::size_t>(in.gcount()));
  return begins.find("trainyard.trace/") != std::string::npos || begins.find("\"traceEvents\"") != std::string::npos ||
         (begins.find("\"ph\"") != std::string::npos && begins.find("\"pid\"") != std::string::npos);
}

constexpr const char* kinds =
    "give a run, a checkpoint, a shard set or one shard, a metrics file, a plan, a profile, a trace, the TOML file of "
    "a "
    "model, or the HDF5 file of a layout";

// A hint for a path that does not exist. The name of a preset is not one.
std::string way_to_what_is_missing(const std::string& path) {
  const auto presets = plan::preset_names();
  if (std::find(presets.begin(), presets.end(), path) == presets.end()) return "check the path";
  return fmt::format(
      "it is the name of a preset: partition-model --model {} shows its parameters and memory; inspect reads files and "
      "folders",
      path);
}

}  // namespace

void refuse_verify(const Options& options, const std::string& path, const char* what) {
  if (options.verify == Verify::everything)
    throw base::UsageError(fmt::format("--verify: {} is {}, which has no checksums to compare with", path, what),
                           "leave --verify out: what is shown was read to its end; a checkpoint, a run, shards and a "
                           "plan can be verified");
}

Report report_on(const std::string& path, const Options& options) {
  std::error_code error;
  const fs::path p(path);
  if (!base::exists(path)) throw base::InputError(fmt::format("{} does not exist", path), way_to_what_is_missing(path));
  if (!base::is_folder(path)) {
    const auto parent = p.parent_path().empty() ? std::string(".") : p.parent_path().string();
    if (p.filename() == "manifest.json") return checkpoint_report(parent, options);
    if (p.filename() == "index.json") return shards_report(parent, options);
    if (p.filename() == "metrics.jsonl" && options.verify == Verify::metadata) return run_report(parent, options);
    if (p.extension() == ".jsonl") return metrics_report(path, options);  // set aside, or copied
    if (p.extension() == ".h5") return hdf5_report(path, options);
    if (p.extension() == ".toml") return model_report(path, options);
    if (p.filename() == "report.txt")
      throw base::InputError(fmt::format("{} is a report for readers, and nothing to inspect", path),
                             fmt::format("cat {}; inspect {} shows the run itself", path, parent));
    if (const auto foreign = tools::hugging_face_hint(parent); p.filename() == "config.json" && !foreign.empty())
      throw base::InputError(fmt::format("{} describes a model of Hugging Face", path), foreign);
    if (looks_like_trace(p)) return trace_report(path, options);
    if (!looks_like_json(p))
      throw base::InputError(fmt::format("{} is not a file that these programs write or read", path), kinds);
    return plan_report(path, options);
  }
  if (base::exists(path + "/manifest.json") || base::exists(path + "/rank-00000.h5") || path.ends_with(".partial"))
    return checkpoint_report(path, options);
  if (base::exists(path + "/index.json")) return shards_report(path, options);
  if (base::exists(path + "/metrics.jsonl") || base::is_folder(path + "/checkpoints")) return run_report(path, options);
  if (!checkpoint::list(path).empty() || !checkpoint::list_abandoned(path).empty())
    return checkpoints_report(path, options);
  if (holds_shards(p)) return shards_report(path, options);
  if (fs::is_empty(p, error)) throw base::InputError(fmt::format("{} is an empty folder", path), kinds);
  const auto foreign = tools::hugging_face_hint(path);
  throw base::InputError(fmt::format("{} holds neither manifest.json (a checkpoint), index.json (shards), nor "
                                     "metrics.jsonl or checkpoints/ (a run)",
                                     path),
                         foreign.empty() ? kinds : foreign);
}

}  // namespace trainyard::inspect
