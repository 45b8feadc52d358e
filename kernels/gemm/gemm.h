// Matrix products with fixed tiles. Every element is the same sum in the same order for every number of threads.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

enum class Transpose { no, yes };
enum class Accumulate { no, yes };

// c[M,N] = op(a) op(b), or c += op(a) op(b). `a` and b share a dtype (f32, bf16, f16, f64). c has that dtype, or f32
// for bf16 inputs. Pitches are honoured; c must not alias `a` or b. bf16 is widened exactly, accumulated in f32 and
// rounded once. K is at least 1.
//
// The sum over K goes by blocks of gemm_block_k steps. Inside a block, multiply-adds (fused on AVX2 and AVX-512) begin
// from zero and go in ascending k. Paths with AVX-512 BF16 or AMX multiply bf16 by pairs or by tiles
// (kernels/bf16_pairs_cpu.h, kernels/bf16_tiles_cpu.h). Blocks are added to c in ascending order; the first overwrites
// c unless the call accumulates. Blocking after Goto and van de Geijn (2008), "Anatomy of high-performance matrix
// multiplication". Scratch: plan::gemm_scratch_bytes.
struct Gemm {
  base::ConstView a, b;  // op(a) is [M, K], op(b) is [K, N]
  Transpose trans_a = Transpose::no, trans_b = Transpose::no;
  base::View c;  // [M, N]
  Accumulate accumulate = Accumulate::no;
};
void gemm(tensor::Exec& exec, const Gemm& product);

}  // namespace trainyard::kernels
