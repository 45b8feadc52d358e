// Widths: the part of each layer that one tensor-parallel rank computes.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <algorithm>
#include <cstdint>

namespace trainyard::plan {

// For `tensor` tensor-parallel ranks; the degree divides every shared dim.
struct Widths {
  Widths(const ModelConfig& m, int tensor)
      : heads(m.heads / tensor), kv_heads(m.kv_heads / tensor), q(heads * m.head_dim()), kv(kv_heads * m.head_dim()),
        ffn(m.ffn / tensor), vocabulary(m.stored_vocabulary() / tensor),
        lanes(std::max<std::int64_t>(1, m.lanes / tensor)), in_lanes(m.lanes > 1),
        partials(tensor == 1 || (m.lanes & (m.lanes - 1)) == 0 ? 1 : lanes) {}

  std::int64_t heads, kv_heads;
  std::int64_t q, kv;       // columns
  std::int64_t ffn;         // inner width of the feed-forward part
  std::int64_t vocabulary;  // stored rows of vocabulary tables
  std::int64_t lanes;       // reduction lanes of this rank
  bool in_lanes;            // whether the model has several lanes, so that this rank's lanes are part of a larger sum
  // Partial sums that a rank sends: one, if its lanes are a subtree of all lanes. If lanes are added from left to
  // right, one for each lane.
  std::int64_t partials;
};

}  // namespace trainyard::plan
