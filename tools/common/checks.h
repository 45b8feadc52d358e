// Checks of flag values: the same sentences in every program, and no check accepts NaN.
#pragma once

#include "libtrain/base/range.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::tools {

CLI::Validator in_range(base::Range<std::int64_t> range);  // a whole number, in decimal digits
CLI::Validator in_range(base::Range<int> range);
CLI::Validator in_range(base::Range<double> range);
CLI::Validator any_seed();                                     // 0 to 2^64 - 1
CLI::Validator one_of(const std::vector<std::string>& words);  // with "did you mean"

// Makes "bf16" of "bfloat16" and so on, and wants one of these names: for Option::transform.
CLI::Validator one_of_dtypes(const std::vector<std::string>& names);

}  // namespace trainyard::tools
