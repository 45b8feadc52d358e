// Parses and prints sizes.
#include "tools/common/size_text.h"

#include "libtrain/base/error.h"

#include <cmath>
#include <cstdlib>

namespace trainyard::tools {

std::int64_t parse_size(const std::string& text, const std::string& flag) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end == nullptr ? "" : end;
  const std::pair<const char*, double> units[] = {{"", 1}, {"B", 1}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9},
                                                 {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto& [name, factor] : units)
    if (unit == name && end != text.c_str() && number >= 0 && number * factor < 9e18) return static_cast<std::int64_t>(std::llround(number * factor));
  throw base::UsageError(fmt::format("{} '{}' is not a size", flag, text), "write 80GB, 512MiB or a number of bytes");
}

std::string size_text(std::int64_t bytes) {
  double n = static_cast<double>(bytes);
  for (const char* unit : {"B", "kB", "MB", "GB", "TB"}) {
    if (std::fabs(n) < 1000 || std::string(unit) == "TB") return unit == std::string("B") ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", n, unit);
    n /= 1000;
  }
  return {};
}

}  // namespace trainyard::tools
