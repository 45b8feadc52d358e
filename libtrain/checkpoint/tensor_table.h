// The kinds of tensors that a checkpoint has, and its table of parameters.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/run_state.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

enum class Kind { model, master, m, v };
inline constexpr Kind all_kinds[] = {Kind::model, Kind::master, Kind::m, Kind::v};
const char* path_of(Kind kind);                        // "/model", "/optimizer/master", "/optimizer/m", "/optimizer/v"
base::DType dtype_of(Kind kind, base::DType working);  // the working dtype for model, f32 for the others
// The kinds of tensors that a checkpoint has of every parameter: the model alone, or also what the optimizer keeps. An
// f32 checkpoint has no master, because its model is the master.
std::vector<Kind> kinds_of(base::DType working, Contents contents = Contents::all);
std::vector<Kind> kinds_of(const RunState& state);
Kind exact_weights(const RunState& state);  // the weights in the highest precision: master, or else model

// A logical tensor, which exists once in every kind.
struct ParameterEntry {
  std::string name;
  Shape shape;
  std::int64_t count = 0;
  std::vector<std::string> aliases;  // names of other occurrences of the same weights
  bool operator==(const ParameterEntry&) const = default;
};

std::vector<ParameterEntry> parameters_of(const plan::ModelConfig& model);

// What a manifest says of one kind of a parameter.
struct TensorEntry {
  std::uint64_t fingerprint = 0;
  double norm = 0;  // may be NaN
};

}  // namespace trainyard::checkpoint
