// Evaluator: computes the losses of micro-batches with the weights of a checkpoint, on the pipeline stage of a rank.
// Its arenas have the sizes of plan::evaluation_memory.
#pragma once

#include "libtrain/checkpoint/read_sums.h"
#include "libtrain/engine/rank_runtime.h"
#include "libtrain/engine/trainer.h"
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
  bool finds_losses() const { return r_.stage + 1 == r_.plan.pipeline; }

  // For example "stage 1, forward of micro-batch 3". From any thread.
  std::string doing() const { return r_.now.text(r_.stage, r_.plan.pipeline, "gathering losses"); }

  tensor::Exec& communication() { return r_.communication; }
  const RankMemory& memory() const { return r_.memory; }

 private:
  void make_chunks();
  void read_shards(checkpoint::Reader& reader, checkpoint::ReadSums& sums);

  StepSettings settings_;
  RankRuntime r_;
  params::WeightStore store_;
};

}  // namespace trainyard::engine
