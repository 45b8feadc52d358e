// Tensor-parallel ranks as threads: a world, Execs and collectives for each, without parameter stores.
#pragma once

#include "libtrain/comm/staged.h"
#include "libtrain/comm/threads.h"
#include "libtrain/comm/world.h"
#include "libtrain/model/tensor_collectives.h"
#include "tests/model/test_place.h"

#include <functional>
#include <memory>
#include <vector>

namespace trainyard::test {

inline plan::Topology tensor_ranks(int ranks) {
  return ranks == 1 ? plan::Topology() : plan::Topology({{plan::Axis::data, 1}, {plan::Axis::tensor, ranks}});
}

// One tensor-parallel rank. The caller owns its compute Exec.
class TensorRank {
 public:
  TensorRank(int rank, int ranks, comm::ThreadsWorld& threads, const plan::ModelConfig& model,
             const plan::MicroShape& shape, tensor::Exec& compute)
      : topology(tensor_ranks(ranks)),
        world_("threads", rank, topology, threads.factory(rank), {{plan::Axis::data}, {plan::Axis::tensor}}),
        communication_(on_gpu() ? tensor::Exec::gpu(0, nullptr) : tensor::Exec::worker("communication", nullptr)),
        staging(tensor::Category::communication_staging, plan::tensor_staging_bytes(model, shape), test_device()),
        execs_{world_, compute, *communication_}, collectives(on_device(execs_), staging, model, shape) {}

  const comm::Ledger& ledger() const { return world_.group({plan::Axis::tensor}).ledger(); }

  plan::Topology topology;

 private:
  // Ranks may share a GPU, so their messages pass through the host.
  params::RankExecs& on_device(params::RankExecs& execs) {
    if (on_gpu())
      world_.replace_groups(
          [](auto group) { return group->size() == 1 ? std::move(group) : comm::staged(std::move(group)); });
    return execs;
  }
  comm::World world_;
  std::unique_ptr<tensor::Exec> communication_;

 public:
  tensor::Arena staging;

 private:
  params::RankExecs execs_;

 public:
  model::TensorCollectives collectives;
};

}  // namespace trainyard::test
