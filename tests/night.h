// Whether the nightly runs: by day, tests that take long try fewer cases or steps than at night.
#pragma once

#include <cstdlib>

namespace trainyard::testing {

// tests/run.sh --nightly sets the variable.
inline bool at_night() {
  const char* share = std::getenv("TRAINYARD_TEST_SHARE");
  return share != nullptr && *share != 0;
}

template <class T> T by_day_or_night(const T& day, const T& night) { return at_night() ? night : day; }

}  // namespace trainyard::testing
