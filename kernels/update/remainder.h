// An f32 master weight as its bf16 working copy, a remainder of 2 bytes, and one bit.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// The remainder of a master is its lower 16 bits. The working copy is the master rounded to nearest, ties to even. So
// the remainder says whether it was rounded up, but for a tie: then both neighbours of an even working copy fit, 65,537
// masters to one working copy. A mark, one bit for each element, says that a tie was rounded down. For a NaN, which
// rounding makes quiet, it says that the master was not. So every f32 comes back with all its bits. On a GPU all NaNs
// have one working copy, and a NaN stays some NaN.
//
// Element i is low[first + i], and its mark is bit (first + i) % 8 of marks[(first + i) / 8]. Work on elements that
// share a byte of marks is done one after the other.
struct Remainder {
  base::View low;    // u16 [elements]
  base::View marks;  // u8 [elements / 8, rounded up]
  std::int64_t first = 0;

  explicit operator bool() const { return static_cast<bool>(low); }
  Remainder from(std::int64_t element) const { return {low, marks, first + element}; }
};
constexpr std::int64_t bytes_of_marks(std::int64_t elements) { return (elements + 7) / 8; }

// master = the masters of the elements. `working` is bf16, `master` f32; all are dense and of one count.
void join_master(tensor::Exec& exec, base::ConstView working, const Remainder& remainder, base::View master);
// The other way: working = master rounded, and the remainder.
void split_master(tensor::Exec& exec, base::ConstView master, base::View working, const Remainder& remainder);

}  // namespace trainyard::kernels
