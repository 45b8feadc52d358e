// Numbers as people read them: the one place that rounds. Files and --bytes hold all digits.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::base {

// How a table shows sizes: rounded for people, or every byte (--bytes).
enum class Sizes { rounded, exact };

// Three digits and a decimal unit: "50.6 MB", "512 B", "1.00 GB"; a minus where it is due. Bytes below 1000 are exact.
std::string size_text(std::int64_t bytes);
// As asked: the same, or the number of bytes alone.
std::string size_text(std::int64_t bytes, Sizes sizes);
// How two sizes differ. 0 only where they are equal, so that rounding hides nothing: "0", "+104 kB", "-64 B"; exact:
// "104704".
std::string size_difference_text(std::int64_t bytes, Sizes sizes);
// Sizes that programs choose are powers of two: "32 KiB", "64 MiB", "1.5 GiB"; three digits.
std::string binary_size_text(std::int64_t bytes);

// "12.1 GFLOP/s", "1.90 GB/s": three digits, a prefix and the unit.
std::string rate_text(double per_second, const std::string& unit);
// Of things that are counted: "45,500 tokens/s", "0.52 tokens/s"; three digits.
std::string count_rate_text(double per_second, const std::string& unit);
// Four digits: "5.479", "0.001234", "1.2e-07"; "nan" as such.
std::string number_text(double value);
// All digits, in groups of three: "124,439,808".
std::string count_text(std::int64_t count);
// With what is counted, one or several: "1 document", "51,882 documents".
std::string counted(std::int64_t count, const std::string& one);
// "3 min 20 s", "2 h 5 min", "4.2 s", "160 ms", "3.02 us"; "?" for what is no duration.
std::string duration_text(double seconds);

}  // namespace trainyard::base
