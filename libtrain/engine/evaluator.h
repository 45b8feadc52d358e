// Evaluator: the losses of micro-batches with the weights of a checkpoint, on the stage of a rank, in the arenas that
// plan::evaluation_memory states.
#pragma once

#include "libtrain/checkpoint/read_sums.h"
#include "libtrain/engine/batches.h"
#include "libtrain/engine/memory.h"
#include "libtrain/engine/stage_passes.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/engine/world.h"
#include "libtrain/params/weight_store.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::engine {

class Evaluator {
 public:
  // Of `settings` it uses seed and device. The plan is predicted (plan::predict); a world with stages has joined its
  // neighbours.
  Evaluator(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches);
  ~Evaluator();

  // The checkpoint's weights (/model) in the working dtype: each rank reads its own shards, checked as they are read.
  // When any rank finds damage all throw InputError alike. Collective.
  void load(const std::string& checkpoint);
  // losses[i] of micros[i], of sequences [0, sequences); of several stages only the last finds any. passed(i) once this
  // rank is done with micros[i]. Collective.
  void evaluate(std::span<const std::int64_t> micros, std::span<MicroLoss> losses, std::int64_t sequences,
                const std::function<void(std::size_t place)>& passed);
  bool finds_losses() const { return plan_.stage_of(world_.rank) + 1 == plan_.pipeline; }

  // "stage 1, forward of micro-batch 3". From any thread.
  std::string doing() const { return now_.text(plan_.stage_of(world_.rank), plan_.pipeline, "gathering losses"); }

  tensor::Exec& communication() { return world_.communication ? *world_.communication : *compute_; }
  const RankMemory& memory() const { return memory_; }

 private:
  std::vector<Chunk> make_chunks();
  void read_shards(checkpoint::Reader& reader, checkpoint::ReadSums& sums);

  plan::Plan plan_;
  StepSettings settings_;
  World& world_;
  Batches& batches_;
  plan::ModelPart part_;  // of plan_.model
  plan::FlatGroupSet set_;
  RankMemory memory_;
  std::unique_ptr<tensor::Exec> compute_;
  model::AttentionLists lists_;
  std::vector<Chunk> chunks_;  // first of all in their arena
  params::StoreContext context_;
  params::WeightStore store_;
  model::TensorCollectives collectives_;
  model::ExpertCollectives experts_;
  std::optional<StageLink> link_;
  CurrentAction now_;
};

}  // namespace trainyard::engine
