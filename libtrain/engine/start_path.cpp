// From a path to checkpoints.
#include "libtrain/engine/start_path.h"

#include "libtrain/base/advice.h"
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/named.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/run_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace trainyard::engine {

namespace fs = std::filesystem;

namespace {

// If true, the reader of checkpoints reports what is wrong with `path`.
bool is_for_the_reader(const std::string& path) {
  std::error_code error;
  const auto there = [&](const char* name) {
    return fs::exists(path + name, error) || base::is_unreadable(error.value());
  };
  return !fs::is_directory(path, error) || path.ends_with(base::partial_suffix) || there("/manifest.json") ||
         there("/rank-00000.h5");
}

[[noreturn]] void refuse(const std::string& flag, const std::string& path) {
  std::error_code error;
  const auto there = checkpoint::entries(path);
  if (fs::exists(path + "/metrics.jsonl", error) || fs::is_directory(checkpoints_folder(path), error))
    throw base::InputError(
        fmt::format("{} {}: that is the folder of a run which has no checkpoint", flag, base::one_line(path)),
        base::text("leave {} out to begin anew, or name a run with a checkpoint; a run saves with $save-every, when "
                   "it is stopped and at its end",
                   flag));
  std::vector<std::string> shown;
  for (const auto& name : there)
    if (shown.size() < 3) shown.push_back(base::one_line(name));
  const auto more = there.size() - shown.size();
  const auto foreign = base::advice().on_folder(path);
  throw base::InputError(
      fmt::format("{} {}: that is neither a checkpoint nor a run, but {}", flag, base::one_line(path),
                  fs::exists(path + "/index.json", error) ? "a shard set"
                  : there.empty()                         ? "an empty folder"
                                                          : fmt::format("a folder with {}{}", fmt::join(shown, ", "),
                                                more > 0 ? fmt::format(" and {} more", more) : "")),
      foreign.empty() ? "give a checkpoint, which is a folder called step-NNNNNNNN, or the folder of a run" : foreign);
}

// The checkpoint before the one that `message` names, if both lie in `folder`.
std::string one_before(const std::string& folder, std::string_view message) {
  const auto held = checkpoint::list(folder);  // newest first
  const auto unread = std::find_if(held.begin(), held.end(), [&](const checkpoint::Found& f) {
    return message.find(f.path + "/") != std::string_view::npos || message.ends_with(f.path);
  });
  return unread == held.end() || std::next(unread) == held.end() ? "" : std::next(unread)->path;
}

std::string way_to_the_one_before(const RunConfig& c, std::string_view message) {
  try {
    if (const auto path = one_before(checkpoints_folder(c.output), message); !path.empty())
      return base::text("go on from the one before with $resume '{}', which sets this one aside", path);
    const auto beside = [&](const std::string& flag, const std::string& given) {
      return one_before(base::parent_of(checkpoints_named(flag, given).front()), message);
    };
    if (!c.init_from.empty())
      if (const auto path = beside(base::setting_name("init-from"), c.init_from); !path.empty())
        return base::text("take the weights of the one before with $init-from '{}'", path);
    if (resumes_named(c))
      if (const auto path = beside(base::setting_name("resume"), c.resume); !path.empty())
        return base::text("go on from the one before with $resume '{}'", path);
  } catch (const base::Error&) {  // the folder cannot be examined either
  }
  return c.init_from.empty() ? base::text("choose another one, if there is one, with $resume PATH")
                             : base::text("choose another one, if there is one, with $init-from PATH");
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
    } catch (const base::Error&) {  // damaged: an older one has the model, too
    }
  return {};
}

void throw_unread(const RunConfig& c, const base::Unreadable& e) {
  throw base::EnvironmentError(e.what(),
                               fmt::format("{}{}a checkpoint that cannot be read may be whole, so no older one is used "
                                           "instead: start again when it can be read, or {}",
                                           e.hint(), e.hint().empty() ? "" : "; ", way_to_the_one_before(c, e.what())));
}

}  // namespace trainyard::engine
