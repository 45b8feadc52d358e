// Arguments of cached attention as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct CachedAttentionArgs {
  ConstMat q, k, v;
  ConstMat bias;  // empty: none
  Mat out;
  Mat scores;  // [heads, t]
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
  double scale = 1;
  int threads = 1;
  double softcap = 0;
};
TRAINYARD_CPU_KERNEL(void, cached_attention_cpu, (const CachedAttentionArgs& args))

}  // namespace trainyard::kernels
