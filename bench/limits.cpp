// Limits from a profile file, or from the functions that profile-comm calls.
#include "bench/limits.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/io/bulk.h"
#include "libtrain/plan/spec/presets.h"
#include "libtrain/profile/ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace trainyard::bench {

namespace {

double value_in_file(const char* path, const std::string& name, int threads) {
  static const auto profile = plan::profile_from_json(base::read_file(path), path);
  for (const auto& l : profile.local)
    if (l.name == name && l.threads == threads) return l.value;
  throw base::InputError(fmt::format("{} has no {} of {} threads", path, name, threads),
                         "profile-comm --local --threads N --output FILE");
}

double from_file(const char* path, const std::string& name, int threads) {
  try {
    return value_in_file(path, name, threads);
  } catch (const base::Error& e) {
    fmt::print(stderr, "{}\n  try: {}\n", e.what(), e.hint());
    std::exit(static_cast<int>(e.code()));
  }
}

double measured(const std::string& name, int threads, base::Device device, const std::string& folder) {
  profile::CeilingOptions o;
  o.model = plan::preset("gpt2");
  o.model.lanes = 1;
  o.dtypes = {device.kind == base::DeviceKind::cuda || name == "arithmetic.bf16" ? base::DType::bf16
                                                                                 : base::DType::f32};
  o.threads = threads, o.device = device, o.disk_folder = folder;
  for (const auto& c : profile::ceilings(o, "bench"))
    if (c.name == name && c.threads == threads) return profile::rate_of(c);
  throw base::InputError(fmt::format("there is no ceiling {}", name));
}

double once(const std::string& name, int threads, base::Device device, const std::string& folder) {
  if (const char* path = std::getenv("TRAINYARD_PROFILE")) return from_file(path, name, threads);
  static std::map<std::tuple<std::string, int, int, std::string>, double> known;
  const auto key = std::make_tuple(name, threads, device.kind == base::DeviceKind::cuda ? 1 + device.index : 0, folder);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  return known[key] = measured(name, threads, device, folder);
}

}  // namespace

double limit(const std::string& name, int threads, base::Device device) { return once(name, threads, device, ""); }
double write_limit(const std::string& folder) { return once("disk.write", 1, {}, folder); }

double cached_read_limit(const std::string& folder) {
  static std::optional<double> known;
  if (known) return *known;
  constexpr std::int64_t bytes = std::int64_t{256} << 20, part = 8 << 20;
  std::vector<char> buffer(part, 3);
  const auto path = folder + "/limit";
  double best = 0;
  {
    io::BulkFile file(path, io::BulkFile::Mode::create);
    for (std::int64_t at = 0; at < bytes; at += part) file.write(at, buffer.data(), part);
    for (int i = 0; i < 3; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      for (std::int64_t at = 0; at < bytes; at += part) file.read(at, buffer.data(), part);
      best = std::max(best, static_cast<double>(bytes) /
                                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  base::remove_tree(path);
  known = best;
  return best;
}

}  // namespace trainyard::bench
