// Where and when: what files record of their origin, and how long something takes.
#pragma once

#include <string>

namespace trainyard::base {

std::string host_name();  // as the system has it; "?" where it has none
// The wall clock in UTC as ISO 8601 has it: 2026-01-31T23:59:59Z, or with milliseconds 2026-01-31T23:59:59.123Z.
enum class Precision { seconds, milliseconds };
std::string utc_now(Precision precision = Precision::seconds);
// A clock that nobody sets, for how long something takes: only differences mean anything.
double steady_seconds();

}  // namespace trainyard::base
