// Numbers as text for people. Only these functions round; files and --bytes hold all digits.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::base {

// How a table shows sizes: rounded, or as an exact number of bytes (--bytes).
enum class Sizes { rounded, exact };

// Three digits and a decimal unit: "50.6 MB", "512 B", "1.00 GB"; negative sizes have a minus. Sizes below 1000 are
// exact.
std::string size_text(std::int64_t bytes);
// Rounded: the same. Exact: the number of bytes without a unit.
std::string size_text(std::int64_t bytes, Sizes sizes);
// The difference of two sizes: "0", "+104 kB", "-64 B"; exact: "104704". It is 0 only where they are equal, so rounding
// hides no difference.
std::string size_difference_text(std::int64_t bytes, Sizes sizes);
// Three digits and a binary unit: "32 KiB", "64 MiB", "1.5 GiB". It is for sizes that programs choose, which are powers
// of two.
std::string binary_size_text(std::int64_t bytes);

// A rate with three digits, a prefix and the unit: "12.1 GFLOP/s", "1.90 GB/s".
std::string rate_text(double per_second, const std::string& unit);
// A rate of counted things with three digits: "45,500 tokens/s", "0.52 tokens/s".
std::string count_rate_text(double per_second, const std::string& unit);
// Four digits: "5.479", "0.001234", "1.2e-07"; "nan" for not-a-number.
std::string number_text(double value);
// All digits, in groups of three: "124,439,808".
std::string count_text(std::int64_t count);
// A count and its noun, singular or plural: "1 document", "51,882 documents".
std::string counted(std::int64_t count, const std::string& one);
// "3 min 20 s", "2 h 5 min", "4.2 s", "160 ms", "3.02 us"; "?" for a number that is no duration.
std::string duration_text(double seconds);

}  // namespace trainyard::base
