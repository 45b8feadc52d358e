// Element-wise copies: cast between dtypes, copy, fill, add.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

void cast(tensor::Exec& exec, base::View from,
          base::View to);  // between f32, bf16 and f64; narrowing rounds to nearest, ties to even
void copy(tensor::Exec& exec, base::View from, base::View to);  // same dtype and shape
void fill(tensor::Exec& exec, base::View to, double value);
void add(tensor::Exec& exec, base::View y, base::View x);  // y += x, same dtype; bf16 adds in f32 and rounds once

}  // namespace trainyard::kernels
