// From the work of a stage to the actions of a rank.
#include "libtrain/plan/schedule/schedule.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <utility>

namespace trainyard::plan {

namespace {

using Kind = Action::Kind;

// The action for a place of the rank: a micro-batch of the step, or an idle action.
Action of_place(Kind kind, const BatchPlan& batch, int data_rank, std::int64_t place) {
  Action a{kind, place / batch.local_accumulation, place};
  if (const auto group = batch.accumulation_group_of(data_rank, a.round); group >= 0)
    a.micro = batch.first_micro(group) + place % batch.local_accumulation;
  return a;
}

bool is_pass(Kind kind) {
  return kind == Kind::forward || kind == Kind::backward || kind == Kind::input_gradients ||
         kind == Kind::weight_gradients;
}

// Adds loads, messages and slots to the order of a stage's work.
class Program {
 public:
  Program(const BatchPlan& batch, int data_rank, const Pipeline& pipeline, int stage)
      : batch_(batch), data_rank_(data_rank), pipeline_(pipeline), stage_(stage),
        work_(pipeline.blocks > 0
                  ? breadth_first_work(batch.places(), pipeline.blocks)
                  : stage_work(pipeline.schedule, batch.places(), pipeline.stages, pipeline.chunks, stage)),
        slots_(base::size(pipeline.chunks)) {}

  std::vector<Action> made() {
    for (const auto& w : work_)
      if (w.kind == StageWork::Kind::forward && begins(w) && hears_before(w)) arrivals_.push_back(w);
    for (const auto& w : work_)
      if (w.kind != StageWork::Kind::forward && w.kind != StageWork::Kind::weight_gradients && ends(w) &&
          hears_behind(w))
        gradients_.push_back(w);
    const bool by_rounds = pipeline_.stages == 1 && pipeline_.chunks == 1 && pipeline_.blocks == 0 &&
                           pipeline_.schedule != PipelineSchedule::gpipe &&
                           pipeline_.schedule != PipelineSchedule::zero_bubble;
    if (!by_rounds) push({Kind::ask, 0}), push({Kind::agree, 0});
    await();
    for (const auto& w : work_) {
      if (by_rounds) boundary(w);
      if (w.kind == StageWork::Kind::forward) forward(w);
      else backward(w);
    }
    push({Kind::reduce});
    push({Kind::update});
    return std::move(out_);
  }

 private:
  bool idle(const StageWork& w) const {
    return batch_.accumulation_group_of(data_rank_, w.micro / batch_.local_accumulation) < 0;
  }
  bool begins(const StageWork& w) const { return w.block <= 0; }  // its forward is the first of the chunk's blocks
  bool ends(const StageWork& w) const { return w.block < 0 || w.block + 1 == pipeline_.blocks; }
  int part(const StageWork& w) const { return w.chunk * pipeline_.stages + stage_; }
  bool hears_before(const StageWork& w) const { return !idle(w) && part(w) > 0; }
  bool hears_behind(const StageWork& w) const { return !idle(w) && part(w) + 1 < pipeline_.stages * pipeline_.chunks; }
  void push(const Action& a) { out_.push_back(a); }
  void push(Kind kind, const StageWork& w, int slot) {
    auto a = of_place(kind, batch_, data_rank_, w.micro);
    a.chunk = w.chunk, a.slot = slot, a.block = is_pass(kind) ? w.block : -1;
    push(a);
  }
  void await() {
    if (next_arrival_ == arrivals_.size()) return;
    push(Kind::receive_activations, arrivals_[next_arrival_++], -1);
  }

  // With a single stage: an agreement before each round.
  void boundary(const StageWork& w) {
    const auto round = w.micro / batch_.local_accumulation, last = (round + 1) * batch_.local_accumulation - 1;
    if (w.kind == StageWork::Kind::forward && w.micro % batch_.local_accumulation == 0) {
      if (round == 0) push({Kind::ask, 0});
      push({Kind::agree, round});
    }
    if (w.kind == StageWork::Kind::backward && w.micro == last && round + 1 < batch_.accumulation_steps())
      push({Kind::ask, round + 1});
  }

  // Takes the lowest free slot of the chunk.
  int taken(const StageWork& w) {
    auto& slots = base::at(slots_, w.chunk);
    const auto free = std::find(slots.begin(), slots.end(), -1);
    const auto slot = free - slots.begin();
    if (free == slots.end()) slots.push_back(w.micro);
    else *free = w.micro;
    return static_cast<int>(slot);
  }
  // -1: the micro-batch has no slot, or none yet.
  int slot_of(const StageWork& w) const {
    const auto& slots = base::at(slots_, w.chunk);
    const auto at = std::find(slots.begin(), slots.end(), w.micro);
    return at == slots.end() ? -1 : static_cast<int>(at - slots.begin());
  }

  // Have the activations been sent whose gradients `of` waits for, when the forward pass `latest` is over?
  bool sent(const StageWork& of, const StageWork& latest) const {
    return slot_of(of) >= 0 && (latest.block < 0 || of.micro <= latest.micro);
  }

  void forward(const StageWork& w) {
    const auto slot = begins(w) ? taken(w) : slot_of(w);
    if (begins(w) && !idle(w)) push(Kind::load, w, slot);
    if (begins(w) && hears_before(w)) await();
    push(Kind::forward, w, slot);
    if (!ends(w) || !hears_behind(w)) return;
    push(Kind::send_activations, w, slot);
    // In the order in which the next stage makes the gradients. With several chunks that is not the order of
    // activations.
    for (; next_gradient_ < gradients_.size() && sent(gradients_[next_gradient_], w); ++next_gradient_)
      push(Kind::receive_gradients, gradients_[next_gradient_], slot_of(gradients_[next_gradient_]));
  }

  void backward(const StageWork& w) {
    const auto slot = slot_of(w);
    const auto kind = w.kind == StageWork::Kind::backward          ? Kind::backward
                      : w.kind == StageWork::Kind::input_gradients ? Kind::input_gradients
                                                                   : Kind::weight_gradients;
    push(kind, w, slot);
    if (!begins(w)) return;
    if (kind != Kind::weight_gradients && hears_before(w)) push(Kind::send_gradients, w, slot);
    if (kind != Kind::input_gradients && slot >= 0) base::at(base::at(slots_, w.chunk), slot) = -1;
  }

  const BatchPlan& batch_;
  int data_rank_;
  Pipeline pipeline_;
  int stage_;
  std::vector<StageWork> work_;
  // The passes whose activations, and whose gradients, other stages send, in order.
  std::vector<StageWork> arrivals_, gradients_;
  std::size_t next_arrival_ = 0, next_gradient_ = 0;
  std::vector<std::vector<std::int64_t>> slots_;  // for each chunk and slot: the place that has it, or -1
  std::vector<Action> out_;
};

}  // namespace

const char* name_of(Action::Kind kind) {
  switch (kind) {
    case Kind::ask: return "ask";
    case Kind::agree: return "agree";
    case Kind::load: return "load";
    case Kind::receive_activations: return "receive_activations";
    case Kind::forward: return "forward";
    case Kind::send_activations: return "send_activations";
    case Kind::receive_gradients: return "receive_gradients";
    case Kind::backward: return "backward";
    case Kind::input_gradients: return "input_gradients";
    case Kind::weight_gradients: return "weight_gradients";
    case Kind::send_gradients: return "send_gradients";
    case Kind::reduce: return "reduce";
    case Kind::update: return "update";
  }
  return "";
}

std::vector<Action> step_actions(const BatchPlan& batch, int data_rank, const Pipeline& pipeline, int stage) {
  TRAINYARD_ASSERT(batch.micros() % batch.local_accumulation == 0, "{} micro-batches in groups of {}", batch.micros(),
                   batch.local_accumulation);
  TRAINYARD_ASSERT(pipeline.blocks == 0 || pipeline.chunks == 1, "{} virtual stages work breadth first",
                   pipeline.chunks);
  return Program(batch, data_rank, pipeline, stage).made();
}

std::vector<Action> evaluation_actions(std::int64_t rounds, const Pipeline& pipeline, int stage) {
  std::vector<StageWork> passes;
  for (const auto& w : stage_work(pipeline.schedule, rounds, pipeline.stages, pipeline.chunks, stage))
    if (w.kind == StageWork::Kind::forward) passes.push_back(w);
  const auto part = [&](const StageWork& w) { return w.chunk * pipeline.stages + stage; };
  std::vector<Action> out;
  const auto push = [&](Kind kind, const StageWork& w) {
    out.push_back({kind, w.micro, w.micro, w.micro, w.chunk, 0});
  };
  std::size_t next = 0;  // index of the next pass whose activations may arrive
  const auto await = [&] {
    while (next < passes.size() && part(passes[next]) == 0) ++next;
    if (next < passes.size()) push(Kind::receive_activations, passes[next++]);
  };
  await();
  for (const auto& w : passes) {
    push(Kind::load, w);
    if (part(w) > 0) await();
    push(Kind::forward, w);
    if (part(w) + 1 < pipeline.stages * pipeline.chunks) push(Kind::send_activations, w);
  }
  return out;
}

std::vector<int> slots_of(const std::vector<Action>& actions, int chunks) {
  std::vector<int> out(base::size(chunks), 0);
  for (const auto& a : actions)
    if (a.kind == Kind::load) {
      auto& slots = base::at(out, a.chunk);
      slots = std::max(slots, a.slot + 1);
    }
  return out;
}

}  // namespace trainyard::plan
