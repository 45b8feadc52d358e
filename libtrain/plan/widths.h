// Widths: what one of the ranks that share every layer computes of it.
#pragma once

#include "libtrain/plan/model_config.h"

#include <algorithm>
#include <cstdint>

namespace trainyard::plan {

// Of `tensor` ranks, which divide what they share.
struct Widths {
  Widths(const ModelConfig& m, int tensor)
      : heads(m.heads / tensor), kv_heads(m.kv_heads / tensor), q(heads * m.head_dim()), kv(kv_heads * m.head_dim()),
        ffn(m.ffn / tensor), vocabulary(m.stored_vocabulary() / tensor),
        lanes(std::max<std::int64_t>(1, m.lanes / tensor)), in_lanes(m.lanes > 1),
        partials(tensor == 1 || (m.lanes & (m.lanes - 1)) == 0 ? 1 : lanes) {}

  std::int64_t heads, kv_heads;
  std::int64_t q, kv;       // columns
  std::int64_t ffn;         // inner width of the feed-forward part
  std::int64_t vocabulary;  // stored rows of its tables
  std::int64_t lanes;       // slices of a rank's part of a sum
  bool in_lanes;            // does the model have several, so that this rank's are a part of a larger sum
  // Sums that a rank sends: one, a subtree of all lanes; each lane's where they are added from left to right.
  std::int64_t partials;
};

}  // namespace trainyard::plan
