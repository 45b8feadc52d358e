// Rules about the run folder.
#include "libtrain/engine/run_folder.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/owned.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/own_files.h"
#include "libtrain/engine/metrics.h"
#include "libtrain/engine/metrics_reader.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/ranges.h>
#include <iterator>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::engine {

namespace {

constexpr const char* last_name = "/last-checkpoint";
std::string way_from_held() { return base::text("wait until that run has ended, stop it, or choose another $output"); }

// The whole file; "" if there is none.
std::string metrics_text(const std::string& metrics) {
  std::error_code error;
  if (metrics.empty() || (!std::filesystem::exists(metrics, error) && !base::is_unreadable(error.value()))) return {};
  return base::read_file(metrics, std::numeric_limits<std::int64_t>::max());
}

std::string lines_through(const std::string& metrics, std::int64_t step) {
  auto text = metrics_text(metrics);
  if (!text.empty()) text.resize(std::min(text.size(), base::size(MetricsFile::length_through(metrics, step))));
  return text;
}

// The file with the lines that led to a checkpoint that is not the newest of its folder's branch. A checkpoint that was
// set aside has a file of its own. For a checkpoint in another run it is that run's metrics.jsonl.
std::string history_of(const std::string& path) {
  if (const auto own = path + "/" + checkpoint::history_name; base::file_size(own) >= 0) return own;
  auto place = base::absolute_path(path).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  const auto folder = place.parent_path();
  const bool of_run = place.filename().string().starts_with("step-") && folder.filename() == "checkpoints";
  const auto metrics = (folder.parent_path() / "metrics.jsonl").string();
  return of_run && base::file_size(metrics) >= 0 ? metrics : std::string();
}

// How many bytes of whole lines two texts have in common at their beginning.
std::size_t common_lines(const std::string& a, const std::string& b) {
  const auto differ = base::size(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const auto feed = differ == 0 ? std::string::npos : a.rfind('\n', differ - 1);
  return feed == std::string::npos ? 0 : feed + 1;
}

// The last step of the first `bytes` of a file.
std::int64_t last_step(const std::string& metrics, std::size_t bytes) {
  std::int64_t step = 0;
  if (bytes > 0)
    each_metrics_line(metrics, [&](const MetricsLine& line) {
      if (line.end > static_cast<std::int64_t>(bytes)) return false;
      if (line.damage.empty()) step = line.step;
      return true;
    });
  return step;
}

// Keeps the lines that metrics.jsonl holds and `history` does not, in a file of their own.
void keep_other_lines(const std::string& output, const std::string& metrics, const std::string& before,
                      const std::string& history) {
  const auto common = common_lines(before, history);
  if (common >= before.size()) return;
  const auto step = last_step(metrics, common);
  const auto kept = base::free_name(fmt::format("{}/abandoned-metrics-after-{:08}.jsonl", output, step));
  base::write_file(kept, before.substr(common));
  base::log_warning("{}: its lines {}of an earlier start are not continued: they are kept in {}", metrics,
                    step > 0 ? fmt::format("after step {} ", step) : "", kept);
}

// For a run that continues from its newest checkpoint: warns if its metrics lack steps up to there.
void look_at_metrics(const std::string& output, const std::string& metrics, std::int64_t step) {
  std::int64_t known = 0, missing = 0;
  if (base::file_size(metrics) > 0)
    each_metrics_line(metrics, [&](const MetricsLine& line) {
      if (!line.damage.empty() || !line.terminated) return true;
      if (line.step > step) return false;
      if (known > 0 && line.step > known + 1) missing = line.step - 1;
      known = line.step;
      return true;
    });
  if (known == 0) keep_other_lines(output, metrics, metrics_text(metrics), "");
  if (known < step) missing = step;
  if (missing > 0) base::log_warning("{} lacks steps up to {}, which the run has done", metrics, missing);
}

// Writes the lines into a checkpoint. If that fails it goes without: abandoned-metrics-... has the lines, too.
void give_history(const checkpoint::Found& found, const std::string& lines) {
  try {
    if (!lines.empty()) base::write_file(found.path + "/" + checkpoint::history_name, lines);
  } catch (const base::Error& e) {
    base::log_warning("{} is set aside without its metrics: {}", found.path, e.what());
  }
}

// EnvironmentError if the run could not write later what it has to: a start is the time to report that.
void require_writable(const std::string& output) {
  for (const auto& folder : {output, checkpoints_folder(output)})
    if (std::error_code error; std::filesystem::exists(folder, error) && ::access(folder.c_str(), W_OK | X_OK) != 0)
      base::throw_cannot_write("write into", folder, errno);
  const auto metrics = output + "/metrics.jsonl";
  if (base::file_size(metrics) >= 0 && ::access(metrics.c_str(), W_OK) != 0)
    base::throw_cannot_write("write", metrics, errno);
}

bool is_same(const std::string& a, const std::string& b) {
  std::error_code error;
  const bool same = std::filesystem::equivalent(a, b, error);
  if (base::is_unreadable(error.value())) base::throw_cannot_read("look at", a, error.value());
  return same;
}

// Programs that are given such a folder would take the checkpoint and not the run.
void require_no_checkpoint(const std::string& output) {
  if (base::file_size(output + "/manifest.json") >= 0)
    throw base::UsageError(base::text("$output {} is a checkpoint, and a run needs a folder of its own", output),
                           base::text("choose another $output"));
}

}  // namespace

std::string checkpoints_folder(const std::string& output) { return output + "/checkpoints"; }

HeldFolder::HeldFolder(const std::string& output) {
  base::require_folder_or_nothing(output);
  require_no_checkpoint(output);
  made_ = base::missing_folders(output);
  try {
    base::make_folders(output);
    // A job that is started again at once may meet the end of the job before.
    lock_ = std::make_unique<base::FolderLock>(output, way_from_held(), std::chrono::seconds(2));
    base::require_folder_or_nothing(checkpoints_folder(output));
    require_writable(output);
  } catch (...) {
    give_up();
    throw;
  }
}

HeldFolder::~HeldFolder() { give_up(); }

void HeldFolder::give_up() noexcept {
  lock_.reset();
  if (made_.empty()) return;
  const auto metrics = made_.front() + "/metrics.jsonl";
  struct stat info {};
  if (::lstat(metrics.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0) ::unlink(metrics.c_str());
  for (const auto& folder : made_)
    if (::rmdir(folder.c_str()) != 0) return;  // something is in it
}

std::unique_ptr<HeldFolder> take_run_folder(const std::string& output) { return std::make_unique<HeldFolder>(output); }

void require_usable(const std::string& output) {
  for (const auto& folder : {output, checkpoints_folder(output)}) base::require_folder_or_nothing(folder);
  require_no_checkpoint(output);
  const auto missing = base::missing_folders(output);
  const auto there = missing.empty() ? output : base::parent_of(missing.back());
  if (::access(there.c_str(), W_OK | X_OK) != 0) base::throw_cannot_write("write into", there, errno);
  require_writable(output);
  base::FolderLock::require_free(output, way_from_held());
  MetricsFile::require_file_or_nothing(output + "/metrics.jsonl");
}

void require_unused(const std::string& output) {
  const auto folder = checkpoints_folder(output);
  if (const auto there = checkpoint::entries(folder); !there.empty())
    throw base::InputError(
        fmt::format("{} holds no checkpoint, but {}", folder, fmt::join(there, ", ")),
        base::text(
            "restore a checkpoint, resume from one elsewhere with $resume PATH, or begin anew with another $output"));
  if (const auto last = output + last_name; base::file_size(last) >= 0) {
    auto name = base::read_file(last, 4096);
    name.resize(std::min(name.size(), name.find('\n')));
    throw base::InputError(fmt::format("{} has saved {}, but {} is {}", output, name, folder,
                                       std::filesystem::exists(folder) ? "empty" : "not there"),
                           base::text("is its disk mounted? To begin anew, choose another $output or remove {}", last));
  }
}

void note_published(const std::string& output, std::int64_t step) {
  base::write_file(output + last_name, checkpoint::step_name(step) + "\n");
}

bool is_abandoned(const std::string& output, const std::string& path) {
  const auto abandoned = checkpoint::list_abandoned(checkpoints_folder(output));
  return std::any_of(abandoned.begin(), abandoned.end(),
                     [&](const checkpoint::Found& f) { return is_same(f.path, path); });
}

std::string history_through(const std::string& path, std::int64_t step) {
  return lines_through(history_of(path), step);
}

std::string settle(const std::string& output, const std::string& path, std::int64_t step) {
  const auto folder = checkpoints_folder(output), metrics = output + "/metrics.jsonl",
             own = folder + "/" + checkpoint::step_name(step);
  auto others = checkpoint::list(folder);
  if (!others.empty() && is_same(others.front().path, path)) {  // the run merely continues
    look_at_metrics(output, metrics, step);
    return path;
  }
  const bool on_branch = is_same(path, own);
  if (on_branch) std::erase_if(others, [&](const checkpoint::Found& f) { return f.step <= step; });
  const bool goes_back = is_abandoned(output, path);
  const auto before = metrics_text(metrics),
             history = path.empty() ? "" : lines_through(on_branch ? metrics : history_of(path), step);
  if (!path.empty() && step > 0 && history.empty())
    base::log_warning("the metrics that led to {} are not known: {} begins after step {}", path, metrics, step);
  // What lies before the point where two branches part belongs to both.
  const auto shared = goes_back ? last_step(metrics, common_lines(before, history)) : 0;
  std::erase_if(others, [&](const checkpoint::Found& f) { return goes_back && f.step <= shared && f.step < step; });
  // Nothing has changed yet. Lines come first: once the checkpoints have other names, nobody would ask for their lines
  // again.
  keep_other_lines(output, metrics, before, history);
  // Oldest first: the run leaves the old branch with the last rename.
  std::reverse(others.begin(), others.end());
  for (const auto& found : others) give_history(found, lines_through(metrics, found.step));
  for (const auto& found : others)
    base::log_warning("{} does not belong to the checkpoint that this run goes on from: it is kept as {}", found.path,
                      checkpoint::set_aside(found));
  if (before != history) base::write_file(metrics, history);
  if (!goes_back) return path;
  base::rename_durably(path, own);
  base::log_warning("this run goes on from {}, which is called {} again", path, own);
  return own;
}

}  // namespace trainyard::engine
