// The highest rates of a processor and its memory, as ceilings for kernels (Williams et al. 2009, "Roofline").
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// Runs `rounds` rounds of independent f32 multiply-adds on each of the Exec's threads, with the instruction-set path in
// use. They use only registers. Returns the floating-point operations done, two for each multiply-add. All functions
// here need a CPU Exec.
std::int64_t multiply_adds(tensor::Exec& exec, std::int64_t rounds);
// The same for bf16 in the form that products use: by pairs or tiles on paths that have them, otherwise in f32.
std::int64_t bf16_multiply_adds(tensor::Exec& exec, std::int64_t rounds);

// Copies or fills host memory; each of the Exec's threads gets an equal part. Views are dense; `from` and `to` have
// equal bytes. Stores bypass the caches, which would read a line before writing it. stream_fill writes `byte`
// everywhere.
void stream_copy(tensor::Exec& exec, base::ConstView from, base::View to);
void stream_fill(tensor::Exec& exec, base::View to, unsigned char byte);

}  // namespace trainyard::kernels
