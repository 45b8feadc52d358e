// Element-wise copies: cast between dtypes, copy, fill, scale, add.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// Between the dtypes that kernels compute in. Narrowing rounds to nearest, ties to even, also to subnormals; what is
// too large becomes infinite, and NaN stays NaN.
void cast(tensor::Exec& exec, base::ConstView from, base::View to);
// The same dtype and shape.
void copy(tensor::Exec& exec, base::ConstView from, base::View to);
void fill(tensor::Exec& exec, base::View to, double value);
// f32, in place: what a cast to bf16 and back makes of each element.
void round_to_bf16(tensor::Exec& exec, base::View values);
// y *= factor, in the accumulation dtype, rounded once.
void scale(tensor::Exec& exec, base::View y, double factor);
// y += x, same dtype; bf16 adds in f32 and rounds once.
void add(tensor::Exec& exec, base::View y, base::ConstView x);

}  // namespace trainyard::kernels
