// SavedSet, PassTensors: the saved tensors of one block by name. They are pushed and popped together, by the list in
// the block's description.
#pragma once

#include "libtrain/model/block.h"
#include "libtrain/model/expert_collectives.h"
#include "libtrain/model/tensor_collectives.h"
#include "libtrain/plan/blocks/block_kind.h"

#include <string_view>
#include <vector>

namespace trainyard::model {

// Views stay readable after pop until the next push on the same Saved: nothing else allocates from the activations
// arena.
class SavedSet {
 public:
  static SavedSet push(Saved& saved, std::vector<plan::SavedTensor> list);
  static SavedSet pop(Saved& saved, std::vector<plan::SavedTensor> list);
  // Pops for backward the tensors of the list that forward kept. With Recompute::selective the other tensors have room
  // again, but no values.
  static SavedSet take_back(const Step& step, Saved& saved, std::vector<plan::SavedTensor> list);
  void add(const SavedSet& more);
  static SavedSet keep(Saved& saved, std::vector<plan::SavedTensor> list);  // leaves them for weight gradients to pop
  // Rows [first, first + rows) of each tensor of `list`, which must be in this set.
  SavedSet row_range(const std::vector<plan::SavedTensor>& list, std::int64_t first, std::int64_t rows) const;
  base::View operator[](std::string_view name) const;  // the list must name it
  base::View find(std::string_view name) const;        // empty when the list does not name it

 private:
  static SavedSet take(Saved& saved, std::vector<plan::SavedTensor> list, base::View (Saved::*one)());
  std::vector<plan::SavedTensor> list_;
  std::vector<base::View> views_;
};

inline plan::MicroShape shape_of(const Step& step) {
  return {{.batch = step.micro.batch(), .sequence = step.micro.sequence()},
          {.dtype = step.dtype,
           .threads = step.exec.threads(),
           .device = step.exec.device().kind,
           .tensor = step.collectives->ranks(),
           .sequence_parallel = step.collectives->sequence_parallel(),
           .weight_gradients = step.weight_gradients,
           .experts = step.experts->share(),
           .dispatch_tokens = step.experts->tokens(step.micro.sequence()),
           .expert_capacity_buffer = step.experts->buffer(),
           .label_smoothing = step.label_smoothing > 0},
          step.micro.source != nullptr ? step.micro.source->sequence() : 0};
}

// All rows of a tensor of which this rank has its own rows. With sequence parallelism they are gathered in scratch of
// the caller's scope, while the step computes. Otherwise it is the tensor itself.
class AllRows {
 public:
  AllRows(const Step& step, base::View rows) : AllRows(step, rows, step.micro.batch() * step.micro.sequence()) {}
  // Of `n` rows, such as those of the sources.
  AllRows(const Step& step, base::View rows, std::int64_t n) : collectives_(*step.collectives), all_(rows) {
    if (!collectives_.sequence_parallel()) return;
    all_ = step.exec.scratch().allocate(rows.dtype, {n, rows.cols()});
    gathered_ = collectives_.begin_all_rows(rows, all_);
  }
  base::View get() const {
    if (collectives_.sequence_parallel()) collectives_.wait(gathered_);
    return all_;
  }

 private:
  const TensorCollectives& collectives_;
  base::View all_;
  tensor::Event gathered_;
};
inline base::View all_rows(const Step& step, base::View rows) { return AllRows(step, rows).get(); }

// The list with the tensors that always stay first. Behind them are the tensors that Recompute::selective recomputes,
// so that these can be popped alone.
std::vector<plan::SavedTensor> selective_order(const std::vector<plan::SavedTensor>& list);

// Pushes the tensors of a forward pass, and pops some when it ends. In evaluation it pops all, so that evaluation never
// needs more memory than training. With Recompute::selective it pops the tensors that do not stay.
class PassTensors {
 public:
  PassTensors(const std::vector<plan::SavedTensor>& list, const Step& step, Saved& saved);
  ~PassTensors() {
    while (saved_.size() > kept_) saved_.pop();
  }
  PassTensors(const PassTensors&) = delete;
  PassTensors& operator=(const PassTensors&) = delete;
  const SavedSet& operator*() const { return set_; }

 private:
  Saved& saved_;
  std::size_t kept_;
  SavedSet set_;
};

}  // namespace trainyard::model
