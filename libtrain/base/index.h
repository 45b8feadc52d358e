// Signed numbers as sizes and indices of containers, whose own are unsigned.
#pragma once

#include "libtrain/base/error.h"

#include <concepts>
#include <cstddef>
#include <iterator>
#include <utility>

namespace trainyard::base {

// n as a size. Throws std::logic_error in a debug build if n is negative.
constexpr std::size_t size(std::signed_integral auto n) {
#ifndef NDEBUG
  TRAINYARD_ASSERT(n >= 0, "a size of {}", n);
#endif
  return static_cast<std::size_t>(n);
}

// Element i of a vector, array, span or string, as container[i] gives it. Throws std::logic_error in a debug build if i
// is not in [0, size).
template <class Container> constexpr decltype(auto) at(Container&& container, std::signed_integral auto i) {
#ifndef NDEBUG
  TRAINYARD_ASSERT(i >= 0 && static_cast<std::size_t>(i) < std::size(container), "element {} of {}", i,
                   std::size(container));
#endif
  return std::forward<Container>(container)[static_cast<std::size_t>(i)];
}

}  // namespace trainyard::base
