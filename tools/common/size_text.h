// Sizes as people write them.
#pragma once

#include "libtrain/base/number_text.h"

#include <cstdint>
#include <string>

namespace trainyard::tools {

std::int64_t parse_size(const std::string& text, const std::string& flag);   // "80GB" (1e9), "512MiB" (2^20), "1000"; UsageError naming the flag
using base::size_text;                                                       // "1.50 GB"

}  // namespace trainyard::tools
