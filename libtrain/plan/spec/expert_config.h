// ExpertConfig: the mixture of experts of a model as data, and how many places its experts have.
#pragma once

#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/plan/spec/experts.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// In a layer with experts, they replace the feed-forward branch: each token goes to the top_k experts that its gate
// chooses (Shazeer et al. 2017, "Outrageously large neural networks"; Lepikhin et al. 2020, "GShard"; Fedus et al.
// 2021, "Switch transformers"; Jiang et al. 2024, "Mixtral of experts"; Dai et al. 2024, "DeepSeekMoE").
struct ExpertConfig {
  // Number of experts in each layer that has experts, in ascending order of layers. One number holds for all these
  // layers; an empty list means that the model has no experts. In the model as a layer sees it
  // (plan/spec/layer_model.h) the list has only that layer's number.
  std::vector<std::int64_t> count;
  std::int64_t every = 1;         // after the first dense_layers layers, each n-th layer has experts, first the n-th
  std::int64_t dense_layers = 0;  // layers without experts at the beginning
  std::int64_t top_k = 1;
  std::int64_t ffn = 0;  // inner width of an expert; 0: the width of the model's feed-forward part
  // Places of an expert, relative to the tokens that it would get if all experts got equally many: a decimal number.
  // "none": as many places as tokens want. For evaluations also "same".
  std::string capacity_factor = "1.25", evaluation_capacity_factor = "same";
  std::int64_t min_capacity = 4;
  Overflow overflow = Overflow::random;
  GateNoise noise = GateNoise::none;
  GateScore score = GateScore::softmax;
  GatePlacement placement = GatePlacement::usual;
  BalanceOver balance_over = BalanceOver::usual;
  GateWeights weights = GateWeights::usual;
  double scale = 1;  // factor of the weights (DeepSeek-AI 2024, "DeepSeek-V2": its routed scaling factor)
  // Group-limited choice (DeepSeek-V2, section 2.2.2): the experts form `groups` groups of neighbours, and a token
  // chooses only experts of its best `top_groups` groups. 1: no limit.
  std::int64_t groups = 1, top_groups = 1;
  double bias_rate = 0.001;  // with sigmoid scores: how far a step moves the bias of an expert with too small a load
  // A feed-forward part beside the experts, and a learned mix of the two (Rajbhandari et al. 2022, "DeepSpeed-MoE",
  // section 4.1).
  bool residual = false;
  std::int64_t shared = 0;  // experts for every token, as one feed-forward part of so many times the width
  double balance_loss = 0.01, z_loss = 0;  // coefficients
  std::string network = "ffn";             // the kind of network that an expert is (plan/blocks/expert_kind.h)
  bool operator==(const ExpertConfig&) const = default;
};

// Places of each expert in a gate group of `tokens`: max(ceil(top_k * tokens * factor / experts), min_capacity), at
// most `tokens`. The factor is the exact fraction of its decimal text. 0: no bound.
std::int64_t expert_capacity(const ExpertConfig& experts, std::int64_t count, std::int64_t tokens, Pass pass);

// The most rows that all experts together have in such a gate group.
std::int64_t expert_rows(const ExpertConfig& experts, std::int64_t count, std::int64_t tokens, Pass pass);

}  // namespace trainyard::plan
