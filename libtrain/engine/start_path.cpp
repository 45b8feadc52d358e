// From a path to checkpoints.
#include "libtrain/engine/start_path.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/named.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/run_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace trainyard::engine {

namespace fs = std::filesystem;

namespace {

// Then what is wrong with it is for the reader of checkpoints to say.
bool is_for_the_reader(const std::string& path) {
  std::error_code error;
  return !fs::is_directory(path, error) || path.ends_with(base::partial_suffix) ||
         fs::exists(path + "/manifest.json", error) || fs::exists(path + "/rank-00000.h5", error);
}

[[noreturn]] void refuse(const std::string& flag, const std::string& path) {
  std::error_code error;
  const auto there = checkpoint::entries(path);
  if (fs::exists(path + "/metrics.jsonl", error) || fs::is_directory(checkpoints_folder(path), error))
    throw base::InputError(
        fmt::format("{} {}: that is the folder of a run which has no checkpoint", flag, base::one_line(path)),
        fmt::format("leave {} out to begin anew, or name a run or checkpoint that is there; a run saves with "
                    "--save-every, when it is stopped and at its end",
                    flag));
  std::vector<std::string> shown;
  for (const auto& name : there)
    if (shown.size() < 3) shown.push_back(base::one_line(name));
  const auto more = there.size() - shown.size();
  throw base::InputError(
      fmt::format("{} {}: that is neither a checkpoint nor a run, but {}", flag, base::one_line(path),
                  fs::exists(path + "/index.json", error) ? "a shard set"
                  : there.empty()                         ? "an empty folder"
                                                          : fmt::format("a folder with {}{}", fmt::join(shown, ", "),
                                                more > 0 ? fmt::format(" and {} more", more) : "")),
      "give a checkpoint, which is a folder called step-NNNNNNNN, or the folder of a run");
}

}  // namespace

std::vector<std::string> checkpoints_named(const std::string& flag, const std::string& given) {
  const auto path = base::without_slashes(given);
  if (is_for_the_reader(path)) return {path};
  std::vector<std::string> out;
  for (const auto& folder : {checkpoints_folder(path), path}) {
    for (const auto& held : checkpoint::list(folder)) out.push_back(held.path);
    if (!out.empty()) return out;
  }
  refuse(flag, path);
}

std::string checkpoint_named(const std::string& flag, const std::string& path) {
  const auto named = checkpoints_named(flag, path);
  const auto itself = base::without_slashes(path);
  return named.front() == itself ? itself : checkpoint::named_checkpoint(itself);
}

std::optional<ModelOfCheckpoint> model_of_newest(const std::vector<std::string>& checkpoints) {
  for (const auto& path : checkpoints) try {
      return ModelOfCheckpoint{checkpoint::read_state(path).model, path};
    } catch (const base::Unreadable&) {
      throw;
    } catch (const base::Error&) {  // damaged: an older one says it, too
    }
  return {};
}

}  // namespace trainyard::engine
