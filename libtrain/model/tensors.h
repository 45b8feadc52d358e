// The named tensors of a part of a block: kept on Saved until backward in training, given back at once in evaluation.
#pragma once

#include "libtrain/model/saved.h"

namespace trainyard::model {

inline plan::MicroShape shape_of(const Step& step) { return {step.micro.batch(), step.micro.sequence(), step.dtype, step.exec.threads(), step.exec.device().kind}; }
inline plan::Pass pass_of(const Step& step) { return step.mode == Mode::train ? plan::Pass::train : plan::Pass::evaluate; }

// Forward: pushes the tensors of the part; in evaluation pops them when it ends. So evaluation never needs more memory than training.
class PartTensors {
 public:
  PartTensors(const plan::ModelConfig& model, plan::Part part, const Step& step, Saved& saved)
      : saved_(saved), release_(step.mode == Mode::evaluate), before_(saved.size()),
        set_(SavedSet::push(saved, plan::part_tensors(model, part, shape_of(step), pass_of(step)))) {}
  ~PartTensors() {
    while (release_ && saved_.size() > before_) saved_.pop();
  }
  PartTensors(const PartTensors&) = delete;
  PartTensors& operator=(const PartTensors&) = delete;
  const SavedSet& operator*() const { return set_; }

 private:
  Saved& saved_;
  bool release_;
  std::size_t before_;
  SavedSet set_;
};

// Backward.
inline SavedSet popped(const plan::ModelConfig& model, plan::Part part, const Step& step, Saved& saved) {
  return SavedSet::pop(saved, plan::part_tensors(model, part, shape_of(step), plan::Pass::train));
}

}  // namespace trainyard::model
