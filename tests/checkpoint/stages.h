// Models of several items, and random divisions into pipeline stages.
#pragma once

#include "tests/checkpoint/sample.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace sample {

inline plan::ModelConfig deep(plan::ModelConfig m) {  // eight items, small ones
  m.layers = 6;
  return m;
}

// Random boundaries of stages x chunks parts, none of them empty.
inline plan::Stages random_stages(const plan::ModelConfig& model, int stages, int chunks, std::mt19937& random) {
  if (stages == 1) return {};
  const auto items = plan::item_count(model);
  plan::Boundaries inner(static_cast<std::size_t>(items - 1));
  std::iota(inner.begin(), inner.end(), 1);
  std::shuffle(inner.begin(), inner.end(), random);
  inner.resize(static_cast<std::size_t>(stages * chunks - 1));
  std::sort(inner.begin(), inner.end());
  inner.insert(inner.begin(), 0);
  inner.push_back(items);
  return {stages, inner};
}

struct StagedGrid {
  plan::Topology topology;
  plan::Stages stages;
  std::string text() const {
    return fmt::format("{} ranks, {} of tensor, stages {} of [{}]", topology.world(), topology.size(plan::Axis::tensor),
                       stages.stages, fmt::join(stages.boundaries, ", "));
  }
};
inline StagedGrid staged(const plan::ModelConfig& model, int pipe, int data, int tensor, int chunks,
                         std::mt19937& random) {
  return {plan::replicas_of(pipe * data * tensor, tensor, pipe), random_stages(model, pipe, chunks, random)};
}

}  // namespace sample
