// ParameterGroups: settings of the optimizer for the parameters whose names match a pattern, and rates by layer.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/plan/blocks/flat_group.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

struct ParameterGroup {
  std::string match;  // a shell pattern (fnmatch(3)) for whole names, such as "layers.*.attention.*"
  // What it sets; nothing: it stays as it was.
  std::optional<double> rate_scale;    // factor of the learning rate
  std::optional<double> weight_decay;  // in place of the run's, also where none would apply
  // true: it keeps its initial value, and is in no norm. false: it is trained, whatever an earlier group says.
  std::optional<bool> frozen;
  bool operator==(const ParameterGroup&) const = default;
};

// The groups of a text: PATTERN:KEY=VALUE:..., separated by commas, with the keys learning-rate-scale and weight-decay
// and the words frozen and trained. Empty: none. UsageError, which begins with the setting's name.
std::vector<ParameterGroup> parameter_groups(const std::string& text);
std::string text_of(const std::vector<ParameterGroup>& groups);
// The texts as one.
std::string joined_groups(const std::vector<std::string>& texts);
// The same text for tables of a TOML file with the keys match, learning-rate-scale, weight-decay and frozen.
std::string group_of_tables(const std::vector<base::Field::Table>& tables);

// The rate of each layer is `layer_decay` times that of the layer behind it, and the head has the full rate: the
// embedding has layer_decay^(layers + 1) (Clark et al. 2020, "ELECTRA", section 3.1; Bao et al. 2021, "BEiT"). What
// lies between an encoder and a decoder has the rate of the encoder's last layer.
double rate_scale_of_layer(const plan::FlatGroup& flat_group, double layer_decay, const plan::ModelConfig& model);

struct ParameterRules {
  std::vector<ParameterGroup> groups;
  double layer_decay = 1;
  bool any() const { return !groups.empty() || layer_decay != 1; }
  // Sets rate_scale, weight_decay and update of the parameters of a flat group of a model. Of several groups that
  // match, a later one counts for what it sets; a learning rate makes a parameter trained again.
  void apply(plan::FlatGroup& flat_group, const plan::ModelConfig& model) const;
};

// Which parameters of a model each group matches.
struct MatchedParameters {
  ParameterGroup group;
  std::int64_t parameters = 0, elements = 0;
};
std::vector<MatchedParameters> matched_parameters(const ParameterRules& rules, const plan::ModelConfig& model);
// "layers.*.norm*: weight-decay 0, 12 parameters, 1,536 elements"
std::string text_of(const MatchedParameters& matched);
// UsageError for a group that matches nothing, with names that it resembles, and where all parameters are frozen.
void require_matches(const ParameterRules& rules, const plan::ModelConfig& model);

}  // namespace trainyard::engine
