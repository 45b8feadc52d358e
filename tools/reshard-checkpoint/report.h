// The final reports of reshard-checkpoint, as text and as JSON.
#pragma once

#include "libtrain/checkpoint/compare.h"
#include "libtrain/checkpoint/reshard.h"
#include "libtrain/engine/identity.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::reshard {

// A checkpoint was made from one or more others.
struct Made {
  std::vector<std::string> sources;
  int source_ranks = 1;  // of the last source
  std::string output;
  checkpoint::ReshardResult result;
  double seconds = 0;
};
nlohmann::ordered_json json_of(const Made& made);
std::string text_of(const Made& made);  // for stderr; only the path goes to stdout

// Two checkpoints were compared.
struct Comparison {
  std::string first, second;
  std::optional<double> tolerance;
  std::vector<checkpoint::TensorDifference> tensors;
  std::vector<engine::FieldDifference> reasons;  // why they may differ: their steps and run settings
  bool passes(const checkpoint::TensorDifference& t) const;
  std::int64_t failures() const;
};
nlohmann::ordered_json json_of(const Comparison& comparison);
std::string text_of(const Comparison& comparison);

}  // namespace trainyard::reshard
