// Arguments of attention as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/kernel_work.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct AttentionTiles {  // a TileView as plain data
  const std::int32_t *begin, *other;
  const std::uint16_t* parts;
  std::int64_t tiles, heads;
};

struct AttentionArgs {
  std::int64_t batch, sequence, heads, kv_heads, head_dim;
  double scale;
  std::uint32_t threshold;  // dropout: a pair is kept if its word is at least this; 0: no dropout
  float keep_scale;
  std::uint64_t seed, site;
  const std::uint64_t* samples;
  const std::int32_t* document_start;
  const std::int32_t* key_end;  // nullptr: the end of the sequence
  bool causal;
  AttentionTiles by_queries, by_keys;  // null `begin`: every tile
  std::int64_t first_head;
  Mat q, k, v, out, lse, dout, dq, dk, dv;
  int threads;
  // CPU: `scratch` has scratch_part bytes for each thread. `shared` has shared_part bytes for each of `slots` key-value
  // heads; threads work on that many heads at a time.
  char *scratch, *shared;
  std::int64_t scratch_part, shared_part, slots;
  int products;       // of each pair of a query and a key, of head_dim multiply-adds: 2 forward, 5 backward
  TeamSeconds* team;  // CPU: gets each thread's times; null: nobody measures
  bool hopper;        // GPU: use the kernels for Hopper where they fit (base::hopper_wanted)
};

KernelWork work_of(const AttentionArgs& a);

TRAINYARD_PRODUCT_KERNEL(void, attention_forward_cpu, (const AttentionArgs& args))
TRAINYARD_PRODUCT_KERNEL(void, attention_backward_cpu, (const AttentionArgs& args))
// The f64 form of the two above.
TRAINYARD_CPU_KERNEL(void, attention_exact_forward_cpu, (const AttentionArgs& args))
TRAINYARD_CPU_KERNEL(void, attention_exact_backward_cpu, (const AttentionArgs& args))

}  // namespace trainyard::kernels
