// Matrix products with fixed tiles: every element is the same sum in the same order for every number of threads.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

enum class Transpose { no, yes };
enum class Accumulate { no, yes };

// c[M,N] = op(a) op(b), or c += op(a) op(b). a and b share a dtype (f32, bf16, f64); c has that dtype, or f32 for bf16
// inputs. Pitches are honoured; c must not alias a or b. bf16 is widened exactly, accumulated in f32 and rounded once.
// K is at least 1. The product over K is summed in blocks of gemm_block_k: inside a block by multiply-adds (fused on
// AVX2 and AVX-512) in ascending k from zero (of bf16 with AVX-512 BF16 by pairs, kernels/bf16_pairs_cpu.h), blocks
// added to c in ascending order (the first one overwrites c unless it accumulates). Blocking after Goto and van de
// Geijn (2008), "Anatomy of high-performance matrix multiplication". Scratch: gemm_scratch_bytes.
void gemm(tensor::Exec& exec, base::View a, Transpose ta, base::View b, Transpose tb, base::View c,
          Accumulate accumulate = Accumulate::no);

}  // namespace trainyard::kernels
