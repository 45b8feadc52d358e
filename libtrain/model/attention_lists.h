// AttentionLists: the tile lists of a model's layers, made once for a run.
#pragma once

#include "kernels/attention/attention.h"
#include "libtrain/plan/blocks/inventory.h"

#include <cstdint>
#include <map>

namespace trainyard::model {

// Without block-sparse layers in the part there are no lists and no memory. Otherwise the lists are the first
// allocation in the scratch of `exec`, plan::attention_list_bytes(part, sequence), and stay there. On a GPU they are
// copied once, before the constructor returns. Passes may have shorter sequences, which see the beginning of the
// layout.
class AttentionLists {
 public:
  AttentionLists() = default;
  AttentionLists(const plan::ModelPart& part, std::int64_t sequence, tensor::Exec& exec);
  AttentionLists(AttentionLists&&) = default;
  AttentionLists& operator=(AttentionLists&&) = default;

  // What kernels need of a block-sparse layer. `first_head`: this rank's first head, counted among the model's heads.
  kernels::Visibility of(std::int64_t layer, std::int64_t first_head) const;

 private:
  struct Pair {
    kernels::TileView by_queries, by_keys;
  };
  std::map<std::int64_t, Pair> lists_;  // by the first layer that has the lists
  std::map<std::int64_t, std::int64_t> first_of_;
};

}  // namespace trainyard::model
