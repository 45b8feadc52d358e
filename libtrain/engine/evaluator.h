// Evaluator: computes the losses of micro-batches with the weights of a checkpoint, on the pipeline stage of a rank.
// Its arenas have the sizes of plan::evaluation_memory.
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
  // Uses only seed and device of `settings`. Plan, world and batches must fit together as for a Trainer, and world and
  // batches must outlive the evaluator. Call load() before evaluate().
  Evaluator(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches);
  ~Evaluator();

  // Loads the checkpoint's weights (/model) in the working dtype. Each rank reads its own shards and checks them while
  // reading. If any rank finds damage, all ranks throw InputError. Collective.
  void load(const std::string& checkpoint);
  // Computes losses[i], the loss of micro-batch micros[i]; only sequences [0, sequences) count. With several pipeline
  // stages only the last stage finds losses. Calls passed(i) once this rank is done with micros[i]. Collective.
  void evaluate(std::span<const std::int64_t> micros, std::span<MicroLoss> losses, std::int64_t sequences,
                const std::function<void(std::size_t place)>& passed);
  bool finds_losses() const { return plan_.stage_of(world_.rank) + 1 == plan_.pipeline; }

  // For example "stage 1, forward of micro-batch 3". From any thread.
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
  std::vector<Chunk> chunks_;  // the first allocation in their arena
  params::StoreContext context_;
  params::WeightStore store_;
  model::TensorCollectives collectives_;
  model::ExpertCollectives experts_;
  std::optional<StageLink> link_;
  CurrentAction now_;
};

}  // namespace trainyard::engine
