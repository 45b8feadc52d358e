// Crossings: the tensor-parallel collectives of one block (model/tensor_collectives.h), for its description.
#pragma once

#include "libtrain/plan/blocks/group_call.h"
#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/plan/spec/model_config.h"

#include <vector>

namespace trainyard::plan {

// Collects the collectives of one micro-batch; its functions are named as in model::TensorCollectives. Empty for one
// rank.
class Crossings {
 public:
  Crossings(const ModelConfig& model, const MicroShape& shape) : m_(model), s_(shape) {}

  // Of rows as wide as the hidden states, or of `width` columns.
  Crossings& all_rows(std::int64_t width = 0);  // with sequence parallelism: gathers them
  Crossings& add_up(std::int64_t width = 0);
  Crossings& merge();                                          // combines the embedding's rows
  Crossings& gather(base::DType type, std::int64_t elements);  // elements of all ranks together
  Crossings& norm_gradients();            // with sequence parallelism: gathers partial sums over a norm's rows
  Crossings& loss_statistics(Pass pass);  // for every chunk of the head
  std::vector<GroupCall> take() { return std::move(calls_); }

 private:
  void add(const char* operation, base::DType type, std::int64_t elements, std::int64_t calls = 1);
  const ModelConfig& m_;
  const MicroShape& s_;
  std::vector<GroupCall> calls_;
};

}  // namespace trainyard::plan
