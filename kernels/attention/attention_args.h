// Attention as the compiled variants see it.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/kernel_work.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct AttentionTiles {  // TileView
  const std::int32_t *begin, *other;
  const std::uint16_t* parts;
  std::int64_t tiles, heads;
};

struct AttentionArgs {
  std::int64_t batch, sequence, heads, kv_heads, head_dim;
  double scale;
  std::uint32_t threshold;  // dropout: keep when the word is at least this; 0: no dropout
  float keep_scale;
  std::uint64_t seed, site;
  const std::uint64_t* samples;
  const std::int32_t* document_start;
  const std::int32_t* key_end;  // nullptr: the sequence
  bool causal;
  AttentionTiles by_queries, by_keys;  // begin nullptr: every tile
  std::int64_t first_head;
  Mat q, k, v, out, lse, dout, dq, dk, dv;
  int threads;
  // On the CPU: a part of scratch_part bytes for each thread; one of shared_part for each of `slots` key-value heads
  // that threads work on at a time.
  char *scratch, *shared;
  std::int64_t scratch_part, shared_part, slots;
  int products;       // of each pair of a query and a key, in multiply-adds of head_dim: 2 forward, 5 backward
  TeamSeconds* team;  // on the CPU: where each thread says what it did; null: nobody asks
  bool hopper;        // on a GPU: the kernels for Hopper are asked for (base::hopper_wanted)
};

KernelWork work_of(const AttentionArgs& a);

TRAINYARD_PRODUCT_KERNEL(void, attention_forward_cpu, (const AttentionArgs& args))
TRAINYARD_PRODUCT_KERNEL(void, attention_backward_cpu, (const AttentionArgs& args))
// In f64, of those two.
TRAINYARD_CPU_KERNEL(void, attention_exact_forward_cpu, (const AttentionArgs& args))
TRAINYARD_CPU_KERNEL(void, attention_exact_backward_cpu, (const AttentionArgs& args))

}  // namespace trainyard::kernels
