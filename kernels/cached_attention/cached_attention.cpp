// Checks shapes and types and dispatches cached attention.
#include "kernels/cached_attention/cached_attention.h"

#include "kernels/cached_attention/cached_attention_args.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

void cached_attention(tensor::Exec& exec, const CachedAttention& attention) {
  const auto& [q, k, v, heads, kv_heads, scale, out, softcap, bias] = attention;
  TRAINYARD_ASSERT(heads % kv_heads == 0 && q.cols() % heads == 0, "{} columns, {} heads on {} key-value heads",
                   q.cols(), heads, kv_heads);
  const auto d = q.cols() / heads, t = k.rows();
  TRAINYARD_ASSERT(scale > 0 && softcap >= 0, "scores times {}, with a cap of {}", scale, softcap);
  require_shape(q, 1, heads * d, "q");
  require_shape(k, t, kv_heads * d, "k");
  require_shape(v, t, kv_heads * d, "v");
  require_shape(out, 1, heads * d, "out");
  require_working_type("cached_attention", {{"q", q}, {"k", k}, {"v", v}, {"out", out}});
  if (bias) {
    require_shape(bias, heads, t, "bias");
    require_type(bias, accumulation_of(q.dtype), "cached_attention", "bias");
  }
  exec.run([&exec, c = attention, d, t] {
    tensor::ArenaScope scope(exec.scratch());
    const auto scores = exec.scratch().allocate(accumulation_of(c.q.dtype), {c.heads, t});
    const CachedAttentionArgs a{.q = mat(c.q),
                                .k = mat(c.k),
                                .v = mat(c.v),
                                .bias = mat(c.bias),
                                .out = mat(c.out),
                                .scores = mat(scores),
                                .heads = c.heads,
                                .kv_heads = c.kv_heads,
                                .head_dim = d,
                                .scale = c.scale,
                                .threads = exec.threads(),
                                .softcap = c.softcap};
    TRAINYARD_CALL(exec, cached_attention, a);
  });
}

}  // namespace trainyard::kernels
