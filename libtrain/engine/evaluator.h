// Evaluator: the loss of one micro-batch after another with the weights of a checkpoint, in the arenas that
// `evaluation_memory` states.
#pragma once

#include "libtrain/engine/batches.h"
#include "libtrain/engine/loss_fold.h"
#include "libtrain/engine/memory.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/engine/world.h"
#include "libtrain/model/decoder.h"
#include "libtrain/model/edges.h"
#include "libtrain/params/weight_store.h"

#include <memory>
#include <string>
#include <vector>

namespace trainyard::engine {

// The arenas of a rank that evaluates.
CategoryBytes evaluation_memory(const plan::Plan& plan);

// Of `setup` it uses model, micro, device and of the states stage, working dtype, slots and ranks.
class Evaluator {
 public:
  Evaluator(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches);
  ~Evaluator();

  // The checkpoint's weights (/model) in the working dtype: each rank reads its own pieces, checked as they are read.
  // When any rank finds damage all throw InputError alike. Collective.
  void load(const std::string& checkpoint);
  // Collective at stage 3.
  MicroLoss micro(const model::MicroBatch& batch);

  tensor::Exec& communication() { return world_.communication ? *world_.communication : *compute_; }
  const RankMemory& memory() const { return memory_; }

 private:
  void read_pieces(const std::string& checkpoint);

  plan::Plan plan_;
  StepSettings settings_;
  World& world_;
  plan::UnitSet set_;
  RankMemory memory_;
  std::unique_ptr<tensor::Exec> compute_;
  model::Decoder decoder_;
  params::StoreContext context_;
  params::WeightStore store_;
  model::Edges edges_;
  std::vector<plan::Use> leases_;
  model::Saved saved_;
};

}  // namespace trainyard::engine
