// Parses a number and its unit.
#include "libtrain/base/byte_size.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace trainyard::base {

std::int64_t parse_bytes(const std::string& text, const std::string& spelled, Range<std::int64_t> range) {
  static constexpr std::pair<const char*, double> units[] = {
      {"", 1},    {"B", 1},   {"kB", 1e3}, {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
      {"k", 1e3}, {"M", 1e6}, {"G", 1e9},  {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, size(text.data() + text.size() - end));
  for (const auto& [name, factor] : units) {
    if (error != std::errc() || unit != name || !std::isfinite(number)) continue;
    const double bytes = number * factor;
    if (bytes >= static_cast<double>(range.low) && bytes <= static_cast<double>(range.high)) return std::llround(bytes);
    throw UsageError(fmt::format("{} {} must lie between {} and {} bytes", spelled, text, range.low, range.high),
                     "write 80GB, 512MiB or a number of bytes");
  }
  throw UsageError(fmt::format("{} '{}' is not a size", spelled, text.substr(0, 60)),
                   "write 80GB, 512MiB or a number of bytes");
}

}  // namespace trainyard::base
