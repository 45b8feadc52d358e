// Crossings: the collectives of one block between the ranks that share it (model/collectives.h), for its description.
#pragma once

#include "libtrain/plan/block_kind.h"

#include <vector>

namespace trainyard::plan {

// Collects the calls of one micro-batch, in the words of model::TensorCollectives. Empty for one rank.
class Crossings {
 public:
  Crossings(const ModelConfig& model, const MicroShape& shape) : m_(model), s_(shape) {}

  Crossings& all_rows();  // where ranks share those of the stream
  Crossings& add_up();
  Crossings& merge();                                          // of the embedding's rows
  Crossings& gather(base::DType type, std::int64_t elements);  // of all ranks together
  Crossings& norm_gradients();                                 // partial sums of a norm's rows, where ranks share these
  Crossings& loss_statistics();                                // of every chunk of the head
  std::vector<GroupCall> take() { return std::move(calls_); }

 private:
  void add(const char* operation, base::DType type, std::int64_t elements, std::int64_t calls = 1);
  const ModelConfig& m_;
  const MicroShape& s_;
  std::vector<GroupCall> calls_;
};

}  // namespace trainyard::plan
