// Declaration: how a block states the parameters of its unit, and where each lies in it.
#pragma once

#include "libtrain/plan/inventory.h"

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::model {

enum class Decay { no, yes };   // does weight decay apply

// Builds one plan::Unit. Every call returns the slot of the parameter it added (-1 for a bias the model does not have), so that what a
// block declares and what it borrows are one statement. Kept equal to plan::units by a test.
class Declaration {
 public:
  Declaration(const plan::ModelConfig& model, std::string unit_name) : model_(model) { unit_.name = std::move(unit_name); }

  // Normal(0, 0.02); a projection that feeds the residual stream: Normal(0, 0.02 / sqrt(2 layers)).
  int weight(std::string_view name, std::int64_t out, std::int64_t in);
  int residual_weight(std::string_view name, std::int64_t out, std::int64_t in);
  int bias(std::string_view name, std::int64_t n);              // only with ModelConfig::biases
  int norm_weight(std::string_view name);
  int norm_bias(std::string_view name);                         // only with Norm::layer
  int vocabulary_table(std::string_view name, Decay decay);     // [vocabulary, hidden], stored rows rounded up to 128
  int positions_table(std::string_view name);                   // [context, hidden]

  const plan::Unit& unit() const { return unit_; }

 private:
  int add(plan::Parameter parameter);
  plan::ModelConfig model_;
  plan::Unit unit_;
};

// "layers.07": as many digits as the last layer needs, at least two.
std::string layer_name(const plan::ModelConfig& model, std::int64_t layer);
// Index into plan::units(model).
int unit_of_tokens();
int unit_of_positions();
int unit_of_layer(const plan::ModelConfig& model, std::int64_t layer);
int unit_of_head(const plan::ModelConfig& model);

}  // namespace trainyard::model
