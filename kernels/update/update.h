// Element-wise updates of parameters by an optimizer, in one pass: a written sequence of correctly rounded f32
// operations, which the header of each rule has.
#pragma once

#include "kernels/decayed_ranges.h"
#include "kernels/update/remainder.h"
#include "kernels/update/rules.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <array>
#include <optional>
#include <span>

namespace trainyard::kernels {

// Each element goes through the sequence of the rule. States in bf16 are widened before it, and rounded
// after it, when p has its new value. Then working = p rounded to its dtype, where given.
// All views are dense and of the same count. One pass (one launch on a GPU) updates several parameters that are stored
// back to back.
struct Update {
  UpdateRule rule;
  base::ConstView gradient;   // f32
  base::View parameter = {};  // f32
  std::array<base::View, most_states>
      states{};             // all f32 or all bf16; in the order of Rule::states, absent beyond them
  base::View working = {};  // bf16 or f16
  // Weight decay applies to these elements, at most most_decayed_ranges; for all others weight_decay is 0. Absent: it
  // applies to all.
  std::optional<std::span<const Range>> decayed = {};
  // In place of `parameter`, with a working copy in bf16: p is joined from both, and split into both when it has its
  // new value. All other bits are those of an update with `parameter`.
  Remainder remainder = {};
};
void update(tensor::Exec& exec, const Update& update);

// What all states of an update must be, by the first: bf16 or f32.
inline base::DType dtype_of_states(const base::ConstView& first) {
  return first.dtype == base::DType::bf16 ? base::DType::bf16 : base::DType::f32;
}

}  // namespace trainyard::kernels
