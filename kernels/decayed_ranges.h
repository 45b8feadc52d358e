// The ranges of an update to which weight decay applies: parameters that are stored back to back are updated at once.
#pragma once

#include "libtrain/base/view.h"

#include <cstdint>
#include <span>

namespace trainyard::kernels {

// Elements [first, end). The ranges of an update ascend and do not overlap. Gaps between parameters, where everything
// is zero, stay zero.
struct Range {
  std::int64_t first = 0, end = 0;
};
inline constexpr int most_decayed_ranges = 16;

// Calls update(range, decays) for the ranges and for what lies between them, in order, leaving out what is empty.
template <class F> void for_each_stretch(std::int64_t count, std::span<const Range> decayed, F&& update) {
  std::int64_t at = 0;
  const auto visit = [&](Range range, bool decays) {
    if (range.first < range.end) update(range, decays);
  };
  for (const auto& r : decayed) {
    visit({at, r.first}, false);
    visit(r, true);
    at = r.end;
  }
  visit({at, count}, false);
}

// The elements of a dense view, or an empty view of an empty one.
template <class Memory> base::ViewOf<Memory> elements_of(const base::ViewOf<Memory>& v, Range r) {
  return v ? v.elements(r.first, r.end - r.first) : v;
}

}  // namespace trainyard::kernels
