// The range of legal values of a number.
#pragma once

namespace trainyard::base {

// Both ends are inside the range. Not-a-number lies in no range.
template <class T> struct Range {
  T low, high;
  constexpr bool holds(T value) const { return value >= low && value <= high; }
};

}  // namespace trainyard::base
