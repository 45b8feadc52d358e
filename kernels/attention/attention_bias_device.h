// The gradient of the bias of positions on a GPU: where each sequence has its own, and their sum. For
// attention_*cuda.cu.
#pragma once

#include "kernels/attention/attention_args.h"
#include "kernels/gpu_device.h"
#include "libtrain/base/aligned.h"

namespace trainyard::kernels {
namespace {

// The gradients of the sequences, [batch, heads, distances], lie in the scratch behind what the pass has there besides
// (plan::gpu_attention_backward_scratch_bytes).
template <class F> F* bias_of_sequences(const AttentionBackwardArgs& a) {
  const auto before = a.batch * a.heads * a.sequence * static_cast<std::int64_t>(sizeof(F)) + 8;
  return reinterpret_cast<F*>(a.scratch + base::aligned(before));
}

// Whether any query sees a key at one of the distances [first, first + count), documents and lists aside.
__device__ __forceinline__ bool any_at(const AttentionArgs& a, std::int64_t first, std::int64_t count) {
  return first <= (a.visibility.causal ? 0 : a.reach) && first + count > -a.reach;
}

template <class F> __global__ void attention_bias_sum_kernel(AttentionBackwardArgs a, const F* sequences) {
  const auto size = a.heads * a.d_bias.cols;
  TRAINYARD_EACH(i, size) {
    F sum = sequences[i];
    for (std::int64_t b = 1; b < a.batch; ++b) sum += sequences[b * size + i];
    const auto [h, distance] = place_of(i, a.d_bias.cols);
    a.d_bias.row<F>(h)[distance] = sum;
  }
}
template <class F> void add_bias_of_sequences(const AttentionBackwardArgs& a, void* stream) {
  TRAINYARD_LAUNCH(attention_bias_sum_kernel<F>, false, blocks_for(a.heads * a.d_bias.cols), 256, stream, a,
                   bias_of_sequences<F>(a));
}

}  // namespace
}  // namespace trainyard::kernels
