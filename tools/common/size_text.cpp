// Parses and prints sizes.
#include "tools/common/size_text.h"

#include "libtrain/base/byte_size.h"

#include <fmt/format.h>

#include <cmath>

namespace trainyard::tools {

std::int64_t parse_size(const std::string& text, const std::string& flag) { return base::parse_bytes(text, flag); }

std::string size_text(std::int64_t bytes) {
  double n = static_cast<double>(bytes);
  for (const char* unit : {"B", "kB", "MB", "GB", "TB"}) {
    if (std::fabs(n) < 1000 || std::string(unit) == "TB") return unit == std::string("B") ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", n, unit);
    n /= 1000;
  }
  return {};
}

}  // namespace trainyard::tools
