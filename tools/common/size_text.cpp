// Parses sizes.
#include "tools/common/size_text.h"

#include "libtrain/base/byte_size.h"

#include <fmt/format.h>

#include <cmath>

namespace trainyard::tools {

std::int64_t parse_size(const std::string& text, const std::string& flag) { return base::parse_bytes(text, flag); }

}  // namespace trainyard::tools
