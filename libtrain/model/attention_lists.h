// AttentionLists: the tile lists of a model's layers, made once for a run.
#pragma once

#include "kernels/attention/attention.h"
#include "libtrain/plan/inventory.h"

#include <cstdint>
#include <map>

namespace trainyard::model {

// Where no layer of the part has blocks there is none, and no memory. Else they are the first that is allocated in the
// scratch of `exec`, plan::attention_list_bytes(part, sequence), and stay there: on a GPU they are copied once, before
// the constructor returns. Passes may be of shorter sequences, which see the beginning of the layout.
class AttentionLists {
 public:
  AttentionLists() = default;
  AttentionLists(const plan::ModelPart& part, std::int64_t sequence, tensor::Exec& exec);
  AttentionLists(AttentionLists&&) = default;
  AttentionLists& operator=(AttentionLists&&) = default;

  // What kernels ask of a layer that has blocks, for heads from `first_head` of the model's on.
  kernels::Visibility of(std::int64_t layer, std::int64_t first_head) const;

 private:
  struct Pair {
    kernels::TileView by_queries, by_keys;
  };
  std::map<std::int64_t, Pair> lists_;  // by the first layer that has them
  std::map<std::int64_t, std::int64_t> first_of_;
};

}  // namespace trainyard::model
