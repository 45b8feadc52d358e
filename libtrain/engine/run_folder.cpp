// Rules about the run folder.
#include "libtrain/engine/run_folder.h"

#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/engine/metrics.h"
#include "libtrain/io/atomic_file.h"

#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace trainyard::engine {

namespace {

constexpr const char* last_name = "/last-checkpoint";

// The lines that MetricsFile will cut away; "" when there are none.
std::string lines_after(const std::string& metrics, std::int64_t step) {
  std::error_code error;
  if (!std::filesystem::exists(metrics, error) && !base::is_unreadable(error.value())) return {};
  ::close(base::open_regular(metrics));   // anything else than a file, a pipe that nobody writes above all, is refused before it is opened
  std::ifstream in(metrics, std::ios::binary);
  in.seekg(MetricsFile::length_through(metrics, step));
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_same(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error);
}

}  // namespace

std::string checkpoints_folder(const std::string& output) { return output + "/checkpoints"; }

std::unique_ptr<io::FolderLock> take_run_folder(const std::string& output) {
  io::require_folder_or_nothing(output);
  io::make_folders(output);
  // A job that is started again at once may meet the last breath of the one before.
  auto lock = std::make_unique<io::FolderLock>(output, "wait until that run has ended, stop it, or choose another --output", std::chrono::seconds(2));
  io::require_folder_or_nothing(checkpoints_folder(output));
  return lock;
}

void require_unused(const std::string& output) {
  const auto folder = checkpoints_folder(output);
  if (const auto there = checkpoint::entries(folder); !there.empty())
    throw base::InputError(fmt::format("{} holds no checkpoint, but {}", folder, fmt::join(there, ", ")),
                           "restore a checkpoint, resume from one with --resume PATH, or begin anew with another --output");
  if (const auto last = output + last_name; io::file_size(last) >= 0) {
    auto name = io::read_file(last, 4096);
    name.resize(std::min(name.size(), name.find('\n')));
    throw base::InputError(fmt::format("{} has published {}, but {} is {}", output, name, folder, std::filesystem::exists(folder) ? "empty" : "not there"),
                           fmt::format("is its disk mounted? To begin anew, choose another --output or remove {}", last));
  }
}

void note_published(const std::string& output, std::int64_t step) { io::write_file(output + last_name, checkpoint::step_name(step) + "\n"); }

void set_future_aside(const std::string& output, const std::string& path, std::int64_t step) {
  auto later = checkpoint::list(checkpoints_folder(output));
  if (!later.empty() && is_same(later.front().path, path)) return;   // the run merely goes on
  std::erase_if(later, [&](const checkpoint::Found& f) { return f.step < step || is_same(f.path, path); });
  const auto metrics = output + "/metrics.jsonl";
  if (const auto lines = lines_after(metrics, step); !lines.empty()) {   // first, because once the checkpoints have other names nobody would ask for them again
    const auto kept = io::free_name(fmt::format("{}/abandoned-metrics-after-{:08}.jsonl", output, step));
    io::write_file(kept, lines);
    base::log_warning("{} goes on after step {}: its later lines are kept in {}", metrics, step, kept);
  }
  for (const auto& found : later) base::log_warning("{} is later than where this run goes on: it is kept as {}", found.path, checkpoint::set_aside(found));
}

}  // namespace trainyard::engine
