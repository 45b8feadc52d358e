// Listing, choosing and cleaning checkpoints.
#include "libtrain/checkpoint/finder.h"

#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/io/atomic_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace trainyard::checkpoint {

namespace fs = std::filesystem;

std::vector<Found> list(const std::string& folder) {
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const auto name = it->path().filename().string();
    constexpr std::string_view prefix = "step-";
    if (!name.starts_with(prefix)) continue;
    std::int64_t step = -1;
    const auto [stop, bad] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
    if (bad != std::errc() || stop != name.data() + name.size() || name.size() < prefix.size() + 8 || step < 0) continue;
    if (io::file_size(it->path().string() + "/manifest.json") >= 0) found.push_back({step, it->path().string(), {}});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.step > b.step; });
  return found;
}

Found find_latest_whole(const std::string& folder, Verify verify, const std::vector<std::string>& without) {
  std::vector<std::string> refused;
  for (auto& candidate : list(folder)) {
    if (std::find(without.begin(), without.end(), candidate.path) != without.end()) continue;
    try {
      Reader reader(candidate.path);
      if (verify == Verify::everything) reader.verify_all();
      candidate.refused = std::move(refused);
      return candidate;
    } catch (const base::InputError& e) {
      refused.push_back(fmt::format("{}: {}", candidate.path, e.what()));
      base::log_warning("checkpoint {} is passed over: {}", candidate.path, e.what());
    }
  }
  Found none;
  none.refused = std::move(refused);
  return none;
}

void remove_stale_partials(const std::string& folder) {
  for (const auto& name : io::remove_stale_partials(folder)) base::log_info("removed {}/{}, left by an interrupted writer", folder, name);
}

}  // namespace trainyard::checkpoint
