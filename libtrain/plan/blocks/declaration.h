// Declaration: how the description of a block states the parameters of a flat group.
#pragma once

#include "libtrain/plan/blocks/flat_group.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::plan {

enum class Decay { no, yes };  // whether weight decay applies

// Parameters are named "FLAT_GROUP.NAME" and lie in the flat group in the order of the calls. UsageError for a name
// that the flat group has already. `group` is the group of ranks over which the flat group's gradients are added
// (FlatGroup::group). With adapters all parameters are frozen.
class Declaration {
 public:
  Declaration(const ModelConfig& model, std::string flat_group_name, Part part, Axes group = {Axis::data})
      : model_(model), flat_group_{std::move(flat_group_name), part, group, {}} {}

  // weight: Normal(0, 0.02). residual_weight, for a projection whose output is added to the hidden states: Normal(0,
  // 0.02 / sqrt(2 layers)). With InitialValues::fan_in both are Normal(0, 1 / sqrt(in)). `sharded`: tensor-parallel
  // ranks shard its outputs (column-parallel) or its inputs (row-parallel).
  enum class Shared { none, outputs, inputs };
  void weight(std::string_view name, std::int64_t out, std::int64_t in, Shared sharded = Shared::none);
  void residual_weight(std::string_view name, std::int64_t out, std::int64_t in, Shared sharded = Shared::none);
  // Of queries: with InitialValues::fan_in its spread includes the factor that scores do not have (query_scale).
  void query_weight(std::string_view name);
  void bias(std::string_view name, std::int64_t n, Shared sharded = Shared::none);  // only with Biases::on
  void norm(std::string_view name);  // weight, and with Norm::layer a bias
  // [vocabulary, hidden], stored rows rounded up to 128, sharded over tensor-parallel ranks. Rows of tokens do not
  // decay, and are Normal(0, 1) with InitialValues::fan_in; a head's own do.
  void vocabulary_table(std::string_view name, Decay decay);
  void positions_table(std::string_view name);  // [context + position offset, hidden]
  // [relative buckets, heads], of which tensor-parallel ranks divide the heads.
  void relative_positions_table(std::string_view name);
  // The gate's bias of choices, [experts], initially zero (Update::Kind::even_load).
  void choice_bias(std::string_view name, std::int64_t experts, double rate, std::int64_t choices);
  // Any other parameter. `sharded` is a sharded dim; by default each rank holds the whole parameter.
  void parameter(std::string_view name, std::vector<std::int64_t> shape, Init init, Decay decay,
                 std::optional<ShardedDim> sharded = {});

  const ModelConfig& model() const { return model_; }
  FlatGroup take() { return std::move(flat_group_); }

 private:
  void add(std::string_view name, std::vector<std::int64_t> shape, std::vector<std::int64_t> stored, Init init,
           Decay decay, std::optional<ShardedDim> sharded = {});
  const ModelConfig& model_;
  FlatGroup flat_group_;
};

}  // namespace trainyard::plan
