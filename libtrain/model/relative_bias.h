// RelativeBias: the bias of a layer's attention scores by distance, from the table of its tower.
#pragma once

#include "libtrain/model/saved.h"

#include <cstdint>
#include <vector>

namespace trainyard::model {

// The layer leases the table and opens its gradients (Step::relative_positions). Tensor-parallel ranks divide the
// heads. All views are in scratch of the caller's scope, as plan/blocks/attention.cpp counts it.
class RelativeBias {
 public:
  explicit RelativeBias(const plan::ModelConfig& of_layer);  // a model without relative positions has none
  bool exists() const { return !borders_.empty(); }
  struct Expanded {
    base::View borders, bias;  // i32 [buckets of a direction]; [heads, 2 T - 1] in the dtype of statistics
  };
  Expanded expand(Step& step) const;  // empty views if there is none
  // Of the last of `tokens` tokens as the query, and all of them as keys: [heads, tokens].
  Expanded expand_last(Step& step, std::int64_t tokens) const;
  base::View gradient_place(Step& step, const Expanded& expanded) const;
  // Overwrites the table's gradient of this layer.
  void fold(Step& step, const Expanded& expanded, base::View d_bias) const;

 private:
  Expanded expand(Step& step, std::int64_t queries, std::int64_t keys) const;
  std::vector<std::int32_t> borders_;
  bool bidirectional_;
};

}  // namespace trainyard::model
