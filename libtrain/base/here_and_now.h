// Where and when: what files record of their origin, and how long something takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::base {

std::string host_name();  // as the system has it; "?" where it has none
// The wall clock in UTC as ISO 8601 has it: 2026-01-31T23:59:59Z, or with milliseconds 2026-01-31T23:59:59.123Z.
enum class Precision { seconds, milliseconds };
std::string utc_now(Precision precision = Precision::seconds);
std::string utc_text(std::int64_t seconds_since_1970);  // 2026-01-31T23:59:59Z
// Seconds since 1970 of such a text, with or without a fraction; nothing for any other text.
std::optional<double> seconds_of_utc(std::string_view text);
// A clock that nobody sets, for how long something takes: only differences mean anything.
double steady_seconds();
// How often the system had to give this process a page so far, mostly memory that it touched first.
std::int64_t page_faults();

}  // namespace trainyard::base
