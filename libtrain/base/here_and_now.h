// Host name, wall clock, steady clock and page faults: what files record of their origin, and durations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::base {

std::string host_name();  // the system's host name; "?" without one
// The wall clock in UTC, in ISO 8601: 2026-01-31T23:59:59Z, or with milliseconds 2026-01-31T23:59:59.123Z.
enum class Precision { seconds, milliseconds };
std::string utc_now(Precision precision = Precision::seconds);
std::string utc_text(std::int64_t seconds_since_1970);  // 2026-01-31T23:59:59Z
// Seconds since 1970 of such a text, with or without a fraction. Any other text gives nothing.
std::optional<double> seconds_of_utc(std::string_view text);
// A clock that is never set back, for durations: only differences have a meaning.
double steady_seconds();
// How many page faults this process has had. Most come from memory that it touched for the first time.
std::int64_t page_faults();

}  // namespace trainyard::base
