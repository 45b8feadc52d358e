// The kinds of tensors that a checkpoint has, and its table of parameters.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/run_state.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::checkpoint {

// What a tensor of a checkpoint is to its parameter: the weights of the working dtype (model), their f32 master, or a
// state of the optimizer, by its name.
class Kind {
 public:
  static const Kind model, master;
  static Kind state(std::string name) { return Kind(2, std::move(name)); }
  bool is_state() const { return order_ == 2; }
  const std::string& name() const { return name_; }  // "model", "master", or the name of the state
  bool operator==(const Kind&) const = default;
  bool operator<(const Kind& other) const {
    return order_ != other.order_ ? order_ < other.order_ : name_ < other.name_;
  }

 private:
  Kind(int order, std::string name) : order_(order), name_(std::move(name)) {}
  int order_;
  std::string name_;
};
inline const Kind Kind::model(0, "model");
inline const Kind Kind::master(1, "master");

std::string path_of(const Kind& kind);  // "/model", "/optimizer/master", "/optimizer/m"
// The path of a tensor of this kind: "/optimizer/m/layers.07.attention.q.weight".
std::string path_of(const Kind& kind, const std::string& parameter);
// The dtype of its tensors: the working dtype for model, f32 for master, that of the optimizer's states for the others.
base::DType dtype_of(const Kind& kind, base::DType working, base::DType states);
base::DType dtype_of(const Kind& kind, const RunState& state);
// The kinds of tensors that a checkpoint has of every parameter: the model alone, or also what the optimizer keeps. An
// f32 checkpoint has no master, because its model is the master.
std::vector<Kind> kinds_of(base::DType working, Contents contents = Contents::all,
                           const StoredOptimizer& optimizer = {});
std::vector<Kind> kinds_of(const RunState& state);
bool has(const RunState& state, const Kind& kind);  // is it one of kinds_of?
Kind exact_weights(const RunState& state);          // the weights in the highest precision: master, or else model

// A parameter. It has one logical tensor of every kind, or of the model alone if it is frozen. The tensors of most
// kinds have its shape (KindTensors).
struct ParameterEntry {
  std::string name;
  Shape shape;
  std::int64_t count = 0;
  std::vector<std::string> aliases;  // names of other occurrences of the same weights
  bool frozen = false;               // no step changes it; follows from the model
  bool operator==(const ParameterEntry&) const = default;
};

std::vector<ParameterEntry> parameters_of(const plan::ModelConfig& model);
// Sets `frozen` of parameters that were read, if they are as many as those of the model.
void mark_frozen(const plan::ModelConfig& model, std::vector<ParameterEntry>& parameters);

// The shape of a kind's tensors. A model and a master have that of their parameters.
StateShape shape_of(const Kind& kind, const StoredOptimizer& optimizer);

// The tensors of each kind: the parameters, with the shape and count that their tensors of the kind have. They are in
// the order of the parameters. A frozen parameter has no master and no states: their shapes are empty and their counts
// 0.
class KindTensors {
 public:
  // Shares `parameters`, which must outlive it.
  KindTensors(const StoredOptimizer& optimizer, const std::vector<ParameterEntry>& parameters);

  const std::vector<ParameterEntry>& parameters() const { return *parameters_; }
  const std::vector<ParameterEntry>& of(const Kind& kind) const;
  StateShape shape_of(const Kind& kind) const;

  // The kinds that do not have a tensor of the shape of each parameter: those whose tensors have a number for each row
  // or column, and those that leave out frozen parameters.
  struct Factored {
    StateShape shape = StateShape::rows;
    std::vector<ParameterEntry> tensors;
  };
  const std::map<Kind, Factored>& factored() const { return factored_; }
  bool has(const Kind& kind, std::size_t parameter) const;  // does the kind have a tensor of the parameter?

 private:
  const std::vector<ParameterEntry>* parameters_;
  std::map<Kind, Factored> factored_;
};

// What a manifest says of one kind of a parameter.
struct TensorEntry {
  std::uint64_t fingerprint = 0;
  double norm = 0;  // may be NaN
};

}  // namespace trainyard::checkpoint
