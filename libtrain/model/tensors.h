// Where the named tensors of a part live while it runs: on Saved in training, in the workspace in evaluation.
#pragma once

#include "libtrain/model/saved.h"

namespace trainyard::model {

inline plan::MicroShape shape_of(const Step& step) { return {step.micro.batch(), step.micro.sequence(), step.dtype, step.exec.threads()}; }
inline plan::Pass pass_of(const Step& step) { return step.mode == Mode::train ? plan::Pass::train : plan::Pass::evaluate; }

// In evaluation the caller holds an ArenaScope on the workspace around the part.
inline SavedSet tensors_of(const plan::ModelConfig& model, plan::Part part, Step& step, Saved& saved) {
  auto list = plan::part_tensors(model, part, shape_of(step), pass_of(step));
  return step.mode == Mode::train ? SavedSet::push(saved, std::move(list)) : SavedSet::allocate(step.exec.scratch(), std::move(list));
}
inline SavedSet popped(const plan::ModelConfig& model, plan::Part part, Step& step, Saved& saved) {
  return SavedSet::pop(saved, plan::part_tensors(model, part, shape_of(step), plan::Pass::train));
}

}  // namespace trainyard::model
