// Listing, choosing and cleaning checkpoints.
#include "libtrain/checkpoint/finder.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/checkpoint/own_files.h"
#include "libtrain/io/system_error.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <tuple>
#include <utility>

namespace trainyard::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view step_prefix = "step-", abandoned_prefix = "abandoned-step-";

std::vector<std::string> names_in(const std::string& folder) {
  base::require_folder_or_nothing(folder);
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory) io::throw_cannot_read("list", folder, error.value());
  return names;
}

// Parses PREFIX and at least eight digits. Returns the step and the rest of the name; -1 for another name.
std::pair<std::int64_t, std::string_view> step_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return {-1, {}};
  name.remove_prefix(prefix.size());
  std::int64_t step = -1;
  const auto [stop, bad] = std::from_chars(name.data(), name.data() + name.size(), step);
  const auto digits = base::size(stop - name.data());
  if (bad != std::errc() || digits < 8 || step < 0) return {-1, {}};
  return {step, name.substr(digits)};
}

std::vector<Found> with_prefix(const std::string& folder, std::string_view prefix,
                               bool (*right_end)(std::string_view)) {
  std::vector<Found> found;
  for (const auto& name : names_in(folder)) {
    const auto [step, end] = step_in(name, prefix);
    if (step < 0 || !right_end(end)) continue;
    const auto path = folder + "/" + name;
    std::error_code error;
    if (fs::is_directory(path, error)) found.push_back({step, path, {}});
    else if (base::is_unreadable(error.value())) io::throw_cannot_read("look at", path, error.value());
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return std::tie(b.step, a.path) < std::tie(a.step, b.path); });
  return found;
}

}  // namespace

std::vector<Found> list(const std::string& folder) {
  return with_prefix(folder, step_prefix, [](std::string_view end) { return end.empty(); });
}

std::vector<Found> list_abandoned(const std::string& folder) {
  return with_prefix(folder, abandoned_prefix,
                     [](std::string_view end) { return !end.ends_with(base::partial_suffix); });
}

std::string set_aside(const Found& checkpoint) {
  const auto name =
      base::free_name(fmt::format("{}/{}{:08}", base::parent_of(checkpoint.path), abandoned_prefix, checkpoint.step));
  base::rename_durably(checkpoint.path, name);
  return name;
}

std::vector<std::string> entries(const std::string& folder) {
  auto names = names_in(folder);
  std::erase_if(names, [](const std::string& name) {
    return name.starts_with('.') || name.ends_with(base::partial_suffix) || name == "lost+found";
  });
  std::sort(names.begin(), names.end());
  return names;
}

void remove_stale_partials(const std::string& folder) {
  for (const auto& name : base::remove_stale_partials(folder, is_unfinished_name, own_checkpoints()))
    base::log_info("removed {}/{}, left by an interrupted writer", folder, name);
}

}  // namespace trainyard::checkpoint
