// The most that a processor and its memory can do, as ceilings for kernels (Williams et al. 2009, "Roofline").
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// Multiply-adds that touch nothing but registers: `rounds` rounds of independent f32 multiply-adds on each of the
// Exec's threads, with the instruction set in use; the floating-point operations that were done, two for each. All
// three for a CPU Exec only.
std::int64_t multiply_adds(tensor::Exec& exec, std::int64_t rounds);
// The same of bf16, as products have them: by pairs where the instruction set does; else those of f32.
std::int64_t bf16_multiply_adds(tensor::Exec& exec, std::int64_t rounds);

// Dense views of equal bytes on the host, cut evenly among the Exec's threads. Stores go around the caches, which would
// read a line first in order to write it. `fill` writes one byte everywhere.
void stream_copy(tensor::Exec& exec, base::View from, base::View to);
void stream_fill(tensor::Exec& exec, base::View to, unsigned char byte);

}  // namespace trainyard::kernels
