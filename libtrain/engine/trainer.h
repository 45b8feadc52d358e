// Trainer: one optimizer step of one rank. It interprets the rank's action list (plan/schedule/schedule.h). It knows
// nothing of files, signals or processes.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/engine/learning_rate.h"
#include "libtrain/engine/loss_scale.h"
#include "libtrain/engine/non_finite.h"
#include "libtrain/engine/outlier_steps.h"
#include "libtrain/engine/parameter_groups.h"
#include "libtrain/engine/rank_runtime.h"
#include "libtrain/engine/sequence_losses.h"
#include "libtrain/engine/step_results.h"
#include "libtrain/params/zero_store.h"
#include "libtrain/plan/offload_folders.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/schedule/schedule.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::engine {

// Everything that shapes a step beside the plan. All ranks hold the same values, except for the index of the device.
struct StepSettings : params::OptimizerSettings {
  LearningRate learning_rate;
  double clip = 1.0;
  bool decay_embeddings = false;  // weight decay of token, position and segment tables, too
  std::uint64_t seed = 1;
  NonFinitePolicy non_finite = NonFinitePolicy::stop;
  LossScaleRule loss_scale;  // a rule that scales needs the policy to skip
  base::Device device;       // kind as in the plan; index: the GPU of this rank
  OutlierRule outliers;
  std::vector<plan::OffloadFolder> offload_folders = {};  // where states lie that the plan has on disk
  bool losses_of_sequences = false;                       // whether outcomes have them
  ParameterRules parameters = {};

  bool may_skip() const { return non_finite == NonFinitePolicy::skip || outliers.skips(); }
};

struct StepOutcome {
  StepFate fate = StepFate::counts;
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  double loss_scale = 0;                            // of this step; 0: losses are not scaled
  std::int64_t targets = 0;                         // that count; of none there is no loss, and `loss` is 0
  std::span<const std::int64_t> gate_records = {};  // of gate_record_shape; valid until the next step begins
  std::int64_t expert_rounds = 0;                   // dispatch rounds of the layer that took most in a pass; 0: none
  double begun = 0;                                 // when the host began the step, in seconds of a steady clock
  double compute_seconds = 0, communication_seconds = 0, exposed_seconds = 0;  // of this rank
  std::optional<Outlier> outlier = {};  // why the step is one, which is then skipped or ends the run
  // The pairs of SequenceLosses, if the settings ask for them; valid until two further steps have begun.
  std::span<const double> losses_of_sequences = {};
};

class Trainer {
 public:
  // The plan is what runs: its memory is reserved, its schedule interpreted. It must be predicted (plan::predict). A
  // world with pipeline stages must have joined its neighbours (join_neighbours). `world` and `batches` must outlive
  // the trainer. Weights have no values yet: call store().initialize(seed), or fill the shards of store().states() and
  // call store().shards_loaded(), before the first step, validation or diagnosis. std::logic_error otherwise, and if
  // plan and batches do not fit together.
  Trainer(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches);
  ~Trainer();

  // Begins a step. Collective. `completed` is the number of optimizer steps begun so far. Before each accumulation step
  // `stop_now` is asked on every rank (plan/schedule/schedule.h says when), and the answers are joined. If any rank
  // says yes, the step is abandoned, no weight has changed, and the result is false. An empty function says no. On a
  // GPU the step has only been submitted when this returns: nothing inside it waits for the device, unless states are
  // offloaded. At most two steps may be under way; only one if a step may be skipped, because the next update depends
  // on how many were, and the limits of the next step on the numbers of this one.
  bool begin_step(std::int64_t completed, const std::function<bool()>& stop_now);
  // Waits for the oldest step that was begun and not finished, and returns its outcome. After an outcome that ends the
  // run, no later step has changed anything either.
  StepOutcome finish_step();
  int steps_under_way() const { return static_cast<int>(under_way_.size()); }
  // Is it worthwhile to begin a step before the one before is finished?
  bool results_come_later() const { return on_gpu() && !settings_.may_skip(); }

  // Of the steps begun, those that were skipped. An optimizer's own count of updates leaves them out. A run that goes
  // on from a checkpoint sets the number of the checkpoint before its first step.
  std::int64_t skipped_steps() const { return skipped_; }
  void set_skipped_steps(std::int64_t skipped) { skipped_ = skipped; }
  // Of the next step, when no step is under way.
  const LossScale& loss_scale() const { return loss_scale_; }
  void set_loss_scale(const std::optional<checkpoint::StoredLossScale>& stored) { loss_scale_.go_on_from(stored); }

  const OutlierSteps& outliers() const { return outliers_; }  // likewise
  void set_outliers(const std::optional<checkpoint::StoredOutlierWindow>& stored) { outliers_.go_on_from(stored); }

  // Gathers what the first pass of a next step would gather. So the ledger has the traffic of each step, also of the
  // last. Collective.
  void complete_weights() { store_->complete_weights(); }

  // Mean loss over validation sequences [0, sequences), read in the same order every time. Collective. std::logic_error
  // if the batches have no validation dataset.
  double validate(std::int64_t sequences);
  // The same for consecutive sets of so many sequences each, whole micro-batches, with their losses apart. Also has the
  // mean over all of them.
  struct Validation {
    double loss = 0;
    std::vector<MicroLoss> of_sets;
  };
  Validation validate_sets(std::span<const std::int64_t> sequences);

  // After a step that was not finite: repeats it from the unchanged weights and names the first tensor that is not
  // finite, whichever rank holds it. First means the lowest micro-batch, then the order of the schedule. Collective.
  std::string diagnose(std::int64_t completed);

  // What a step or a validation is doing: "stage 1, forward of micro-batch 3". From any thread.
  std::string doing() const;

  model::ExpertCollectives& expert_collectives() { return r_.experts; }
  params::ZeroStore& store() { return *store_; }
  params::StoreContext& context() { return r_.context; }
  params::OffloadedStates* offloaded() { return r_.offloaded.get(); }                 // null: nothing lies elsewhere
  const model::OffloadedInputs* offloaded_inputs() const { return r_.inputs.get(); }  // null: all are in memory
  RankMemory& memory() { return r_.memory; }
  const RankMemory& memory() const { return r_.memory; }
  const plan::FlatGroupSet& flat_groups() const { return r_.set; }
  tensor::Exec& communication() { return r_.communication; }
  tensor::Exec& compute() { return *r_.compute; }

 private:
  struct UnderWay {
    StepOutcome known;
    std::int64_t waits, calls;  // spans of compute and communication at its end
  };
  // `pass` counts the passes of a micro-batch: its forward through all parts of the model one after the other, then
  // backward.
  using Observer =
      std::function<void(std::int64_t micro, std::int64_t pass, const std::string& where, base::View tensor)>;
  // Executes the actions up to (not including) the update. False: `stop_now` ended the step. An observer sees the
  // hidden states, or their gradient, after every block.
  void divide(std::int64_t completed);  // the batch of the step that follows, with its program
  void order_inputs();                  // of layers that are on disk, for the program
  bool gradients_of_step(std::int64_t completed, const std::function<bool()>& stop_now, const Observer* observer);
  void load(std::int64_t completed, const plan::Action& action);
  StagePasses passes();
  double loss_factor() const { return loss_scale_.token_factor(batch_.global_batch * r_.plan.sequence); }
  void forward(const plan::Action& action, const Observer* observer);
  void backward(const plan::Action& action, const Observer* observer);  // or one of its two halves
  void exchange(const plan::Action& action);                            // with a neighbouring stage
  Chunk& chunk_of(const plan::Action& action) { return base::at(r_.chunks, action.chunk); }
  Slot& slot_of(const plan::Action& action) { return *base::at(chunk_of(action).slots, action.slot); }
  model::Observer seen_by(const Observer* observer, const plan::Action& action, const char* what);
  bool on_gpu() const { return r_.compute->on_gpu(); }
  void require_values() const;
  void make_chunks();
  void update(std::int64_t completed);
  void judge(const kernels::StepNumbers& numbers, StepOutcome& outcome);
  void measure_on_device(const UnderWay& step, StepOutcome& outcome);
  void ask(bool mine);
  bool any_rank_asked();
  struct Finding {
    std::int64_t micro = 0, pass = 0, place = 0;  // place: of the tensor within its pass
    std::string text = {};                        // empty: nothing was found
  };
  std::int64_t place_in_model(const std::string& flat_group) const;
  std::string earliest_of_all(const Finding& mine);

  StepSettings settings_;
  RankRuntime r_;
  std::unique_ptr<params::ZeroStore> store_;
  model::MicroBatch empty_, empty_source_;
  plan::BatchPlan batch_;  // of the newest step; the program is its
  std::vector<plan::Action> program_;
  std::int32_t stop_ = 0;  // does any rank ask to stop? Known after answered_
  tensor::Event answered_;
  plan::LeaseOrder step_leases_;
  std::optional<StepResults> results_;
  std::optional<SequenceLosses> sequences_;
  std::deque<UnderWay> under_way_;
  std::int64_t skipped_ = 0;
  LossScale loss_scale_;
  OutlierSteps outliers_;
  double finished_at_ = 0, blocked_before_ = 0, talking_before_ = 0;  // at the end of the step before, on a GPU
};

}  // namespace trainyard::engine
