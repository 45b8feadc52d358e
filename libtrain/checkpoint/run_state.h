// RunState: everything about a run at the end of a step except its tensors.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/plan/spec/model_config.h"
#include "libtrain/plan/spec/optimizer_kind.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// What a checkpoint holds of each parameter: all that a run needs to go on, or only its weights (`--only model`), from
// which another run may begin.
enum class Contents { all, model };

using StateShape = plan::OptimizerState::Shape;

// The optimizer whose states a checkpoint holds, and their names in the order of the files. A reader needs no
// description of the optimizer to read, reshard or compare them.
struct StoredOptimizer {
  std::string name = plan::default_optimizer;
  std::vector<std::string> states = names_of(plan::optimizer_kind(plan::default_optimizer).states);
  static std::vector<std::string> names_of(const std::vector<plan::OptimizerState>& states);
  base::DType dtype = base::DType::f32;  // of the states
  // Of the states that have a number for each row or column of a parameter. All others have the parameter's shape.
  std::map<std::string, StateShape> shapes = {};
  static std::map<std::string, StateShape> shapes_of(const std::vector<plan::OptimizerState>& states);
  static StoredOptimizer of(const plan::OptimizerKind& kind) {
    return {kind.name, names_of(kind.states), kind.state_dtype(), shapes_of(kind.states)};
  }
  // Whether a run with the one can go on with the states of the other: a resume may round states, or widen them.
  bool has_states_of(const StoredOptimizer& other) const {
    return name == other.name && states == other.states && shapes == other.shapes;
  }
  bool operator==(const StoredOptimizer&) const = default;
};

// Where a run's loss scale stands (engine/loss_scale.h).
struct StoredLossScale {
  double scale = 1;              // of the next step: a power of two from 1 to 2^32
  std::int64_t clean_steps = 0;  // steps without an overflow since the scale changed, or since the last overflow
  std::int64_t hysteresis = 1;   // overflows until the scale is halved
  std::int64_t skips_in_a_row = 0;
  bool operator==(const StoredLossScale&) const = default;
};

// The last steps that changed the weights, which say whether the next one is an outlier (engine/outlier_steps.h).
struct StoredOutlierWindow {
  std::vector<double> gradient_norms = {}, losses = {};  // as many of each, the oldest first
  std::int64_t skips_in_a_row = 0;
  bool operator==(const StoredOutlierWindow&) const = default;
};
inline constexpr std::int64_t longest_outlier_window = 1024;

struct RunState {
  std::int64_t step = 0;  // completed optimizer steps
  std::int64_t samples_seen = 0, tokens_seen = 0;
  // Of the completed steps, those that changed nothing: not finite, or outliers. An optimizer does not count them.
  std::int64_t skipped_steps = 0;
  std::optional<StoredLossScale> loss_scale;  // of a run that scales its loss
  std::uint64_t seed = 0;
  base::DType dtype = base::DType::f32;  // working dtype: f32, or one with an f32 master
  Contents contents = Contents::all;
  StoredOptimizer optimizer;
  plan::ModelConfig model;                             // with a resolved vocabulary size
  nlohmann::json identity = nlohmann::json::object();  // what a resume compares (decision 14)
  // The parallel layout that wrote it. Its content is not trusted: only expert_parts_of (manifest_checks.h) uses it.
  nlohmann::json plan = nlohmann::json::object();
  nlohmann::json versions = nlohmann::json::object();    // of this program and of the libraries it used
  nlohmann::json provenance = nlohmann::json::object();  // who, where, when, from which data
  std::string isa, device_kind = "cpu";
  // The start that writes it (base::FolderLock::name), the same on all ranks. Only the sidecars hold it, because equal
  // runs give equal manifests.
  std::string writer;
  std::optional<StoredOutlierWindow> outlier_window = {};  // of a run that skips outliers
};

const char* name_of(StateShape shape);  // "parameter", "rows", "columns"

nlohmann::json loss_scale_to_json(const StoredLossScale& stored);
StoredLossScale loss_scale_from_json(const nlohmann::json& json, const std::string& where);  // InputError as below
nlohmann::json outlier_window_to_json(const StoredOutlierWindow& stored);
StoredOutlierWindow outlier_window_from_json(const nlohmann::json& json, const std::string& where);  // likewise
nlohmann::json state_to_json(const RunState& state);
// Unknown keys are ignored. InputError, beginning with `where`, for a missing key or one of a wrong type.
RunState state_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace trainyard::checkpoint
