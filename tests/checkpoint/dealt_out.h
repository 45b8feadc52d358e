// Expert-parallel ranks, with pipeline stages, and the state of a run on them.
#pragma once

#include "tests/checkpoint/sample.h"

#include <fmt/ranges.h>

#include <string>

namespace sample {

struct DealtOut {
  int data = 1, experts = 1, pipe = 1;
  plan::Boundaries boundaries = {};  // of the pipeline stages, if there are several

  plan::Topology topology() const { return plan::replicas_of(data * pipe, 1, pipe).with_experts(experts); }
  plan::Stages stages() const { return pipe == 1 ? plan::Stages{} : plan::Stages{pipe, boundaries}; }
  std::string text() const {
    return fmt::format("{} ranks, experts over {}, {} stages of [{}]", data * pipe, experts, pipe,
                       fmt::join(boundaries, ", "));
  }
};

// The state that a run on these ranks records, with its plan.
inline checkpoint::RunState state(const plan::ModelConfig& model, base::DType dtype, std::int64_t step,
                                  const DealtOut& grid) {
  auto s = state(model, dtype, step);
  if (grid.experts > 1) s.plan["expert_parallel"] = grid.experts;
  return s;
}

// The expert's number in a tensor's name; -1 if the tensor belongs to no expert.
inline int expert_of(const std::string& name) {
  const auto at = name.find(".experts.");
  return at == std::string::npos ? -1 : std::stoi(name.substr(at + 9));
}

}  // namespace sample
