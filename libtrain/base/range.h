// The values a number may have.
#pragma once

namespace trainyard::base {

// Both ends belong to it. Not-a-number lies in no range.
template <class T> struct Range {
  T low, high;
  constexpr bool holds(T value) const { return value >= low && value <= high; }
};

}  // namespace trainyard::base
