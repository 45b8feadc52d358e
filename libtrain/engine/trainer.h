// Trainer: one optimizer step of one rank: it interprets the rank's action list (plan/schedule.h). It knows nothing of
// files, signals or processes.
#pragma once

#include "libtrain/engine/batches.h"
#include "libtrain/engine/learning_rate.h"
#include "libtrain/engine/loss_reduction.h"
#include "libtrain/engine/memory.h"
#include "libtrain/engine/stage_passes.h"
#include "libtrain/engine/step_results.h"
#include "libtrain/engine/world.h"
#include "libtrain/model/tensor_collectives.h"
#include "libtrain/params/zero_store.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/schedule.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::engine {

// Everything that shapes a step beside the plan; all ranks hold the same, but for the index of the device.
struct StepSettings {
  LearningRate learning_rate;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1, clip = 1.0;
  bool decay_embeddings = false;  // of tokens, positions and segments, too
  std::uint64_t seed = 1;
  base::Device device;  // kind as the plan's; index: the GPU of this rank
};

struct StepOutcome {
  bool finite = true;  // else nothing has changed
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  std::int64_t targets = 0;
  std::span<const std::int64_t> gate_records = {};  // gate_record_shape; until the next step begins
  std::int64_t expert_rounds = 0;                   // of the layer that took most in a pass; 0: none are made
  double begun = 0;                                 // when the host began it, by a steady clock in seconds
  double compute_seconds = 0, communication_seconds = 0, exposed_seconds = 0;  // of this rank
};

class Trainer {
 public:
  // The plan is what runs: its memory is reserved, its schedule interpreted. It must be predicted (plan::predict). A
  // world with stages has joined its neighbours.
  Trainer(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches);
  ~Trainer();

  // Collective. `completed` is the number of optimizer steps begun so far. For each round `stop_now` is asked on every
  // rank (plan/schedule.h says when) and the answers are joined before it: if any rank says yes the step is abandoned,
  // no weight has changed, and the result is false. On a GPU the step has only been submitted when this returns:
  // nothing inside it waits for the device, and at most two may be under way.
  bool begin_step(std::int64_t completed, const std::function<bool()>& stop_now);
  // The outcome of the oldest step begun and not finished; waits for it. After one that is not finite no later one has
  // changed anything either.
  StepOutcome finish_step();
  int steps_under_way() const { return static_cast<int>(under_way_.size()); }
  bool results_come_later() const {
    return compute_->on_gpu();
  }  // is a step worth beginning before the one before is finished

  // Collective. What the first pass of a next step would gather is gathered, so that each step's traffic is entered in
  // the ledger, that of the last one too.
  void complete_weights() { store_->complete_weights(); }

  // Mean loss over validation sequences [0, sequences), read in the same order every time. Collective.
  double validate(std::int64_t sequences);

  // After a step that was not finite: repeats it from the unchanged weights and names the first tensor that is not
  // finite (lowest micro-batch, then schedule order), whoever holds it. Collective.
  std::string diagnose(std::int64_t completed);

  // "stage 1, forward of micro-batch 3": what is done of a step, or of a validation. From any thread.
  std::string doing() const;

  model::ExpertCollectives& expert_collectives() { return experts_; }
  params::ZeroStore& store() { return *store_; }
  params::StoreContext& context() { return *context_; }
  RankMemory& memory() { return memory_; }
  const RankMemory& memory() const { return memory_; }
  const plan::FlatGroupSet& flat_groups() const { return set_; }
  tensor::Exec& communication() { return world_.communication ? *world_.communication : *compute_; }
  tensor::Exec& compute() { return *compute_; }

 private:
  struct UnderWay {
    StepOutcome known;
    std::int64_t waits, calls;
  };  // spans of compute and communication at its end
  // `pass` of a micro-batch: its forward through all parts of the model one after the other, then backward.
  using Observer =
      std::function<void(std::int64_t micro, std::int64_t pass, const std::string& where, base::View tensor)>;
  // Actions up to (not including) the update. False: `stop_now` ended the step. An observer sees the stream after every
  // block.
  bool gradients_of_step(std::int64_t completed, const std::function<bool()>& stop_now, const Observer* observer);
  void load(std::int64_t completed, const plan::Action& action);
  StagePasses passes();
  void forward(const plan::Action& action, const Observer* observer);
  void backward(const plan::Action& action, const Observer* observer);  // or one half of it
  void exchange(const plan::Action& action);                            // with a stage beside this one
  Chunk& chunk_of(const plan::Action& action) { return chunks_[static_cast<std::size_t>(action.chunk)]; }
  Slot& slot_of(const plan::Action& action) { return *chunk_of(action).slots[static_cast<std::size_t>(action.slot)]; }
  model::Observer seen_by(const Observer* observer, const plan::Action& action, const char* what);
  void make_chunks();
  void update(std::int64_t completed);
  void measure_on_device(const UnderWay& step, StepOutcome& outcome);
  void ask(bool mine);
  bool any_rank_asked();
  struct Finding {
    std::int64_t micro = 0, pass = 0, place = 0;  // of the tensors of a pass in their order
    std::string text = {};                        // empty: nothing was found
  };
  std::int64_t place_in_model(const std::string& flat_group) const;
  std::string earliest_of_all(const Finding& mine);

  plan::Plan plan_;
  StepSettings settings_;
  World& world_;
  Batches& batches_;
  plan::ModelPart part_;  // of plan_.model
  plan::FlatGroupSet set_;
  RankMemory memory_;
  std::unique_ptr<tensor::Exec> compute_;
  model::AttentionLists lists_;
  std::unique_ptr<params::StoreContext> context_;
  std::unique_ptr<params::ZeroStore> store_;
  model::TensorCollectives collectives_;
  model::ExpertCollectives experts_;
  model::MicroBatch absent_;  // the shape of one that there is not
  std::vector<plan::Action> program_;
  CurrentAction now_;
  std::optional<tensor::Arena> passing_;  // of all slots
  std::vector<Chunk> chunks_;
  std::optional<StageLink> link_;
  std::int32_t stop_ = 0;  // does any rank ask to stop; known once answered_
  tensor::Event answered_;
  plan::LeaseOrder step_leases_;
  std::optional<StepResults> results_;
  std::deque<UnderWay> under_way_;
  double finished_at_ = 0, blocked_before_ = 0, talking_before_ = 0;  // at the end of the step before, on a GPU
};

}  // namespace trainyard::engine
