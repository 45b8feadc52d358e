// Checks a remainder, and makes it plain data.
#pragma once

#include "kernels/check.h"
#include "kernels/update/remainder.h"
#include "kernels/update/remainder_args.h"

namespace trainyard::kernels {

// `count` elements, whose working copy is `working`.
inline void require_remainder(const Remainder& r, const base::ConstView& working, std::int64_t count,
                              const char* operation) {
  require_type(working, base::DType::bf16, operation, "working");
  require_type(r.low, base::DType::u16, operation, "low");
  require_type(r.marks, base::DType::u8, operation, "marks");
  TRAINYARD_ASSERT(working.count() == count && working.dense(), "{}: working of {} elements for {}", operation,
                   working.count(), count);
  TRAINYARD_ASSERT(r.marks && r.first >= 0 && r.low.dense() && r.marks.dense() && r.low.count() >= r.first + count &&
                       r.marks.count() >= bytes_of_marks(r.first + count),
                   "{}: a remainder of {} elements with {} bytes of marks, for elements [{}, {})", operation,
                   r.low.count(), r.marks.count(), r.first, r.first + count);
}

inline RemainderPart remainder_part(const Remainder& r) {
  if (!r) return {};
  return {r.low.ptr<std::uint16_t>() + r.first, r.marks.ptr<std::uint8_t>() + r.first / 8,
          static_cast<int>(r.first % 8)};
}

}  // namespace trainyard::kernels
