// ExpertConfig: the mixture of experts of a model as data, and how many places its experts have.
#pragma once

#include "libtrain/plan/experts.h"
#include "libtrain/plan/micro_shape.h"
#include "libtrain/plan/topology.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// Of the experts of each layer the `part`-th of `parts` equal runs of neighbours. The tensor ranks of a replica, which
// have all its rows, deal out the experts among them, and data ranks share what each of these has: of `tensor` runs
// each is cut into across() again.
struct ExpertShare {
  int parts = 1, part = 0;
  int tensor = 1;
  int chunks = 1;  // runs of a rank's experts; rows of one cross while the rank works on another
  int node = 1;    // of across() ranks: neighbours that rows go to first (plan/expert_nodes.h)
  int across() const { return parts / tensor; }  // data ranks that hold different experts (Axis::expert)
  bool operator==(const ExpertShare&) const = default;
};

// What a rank has.
ExpertShare expert_share(const Topology& topology, int rank);

// In a layer that has them, experts take the place of the feed-forward branch: each token goes to the top_k of them
// that its gate chooses (Shazeer et al. 2017, "Outrageously large neural networks"; Lepikhin et al. 2020, "GShard";
// Fedus et al. 2021, "Switch transformers"; Jiang et al. 2024, "Mixtral of experts"; Dai et al. 2024, "DeepSeekMoE").
struct ExpertConfig {
  // Of each layer that has experts, ascending; one number: of all of them; none: the model has no experts. What a layer
  // sees of its model (plan/layer_model.h) has its own number alone.
  std::vector<std::int64_t> count;
  std::int64_t every = 1;         // of the layers behind the first dense_layers each n-th has experts, the n-th first
  std::int64_t dense_layers = 0;  // at the beginning
  std::int64_t top_k = 1;
  std::int64_t ffn = 0;  // inner width of an expert; 0: that of the model's feed-forward part
  // Places of an expert over the tokens that it would get if all got as many, a decimal number, or "none": as many as
  // want it. For evaluations "same", or another one.
  std::string capacity_factor = "1.25", evaluation_capacity_factor = "same";
  std::int64_t min_capacity = 4;
  Overflow overflow = Overflow::random;
  GateNoise noise = GateNoise::none;
  GateScore score = GateScore::softmax;
  GatePlacement placement = GatePlacement::usual;
  BalanceOver balance_over = BalanceOver::usual;
  GateWeights weights = GateWeights::usual;
  double scale = 1;  // of the weights (DeepSeek-AI 2024, "DeepSeek-V2": its routed scaling factor)
  // Group-limited choice (the same, section 2.2.2): experts are so many groups of neighbours, and a token's are of its
  // best `top_groups` of these. 1: no limit.
  std::int64_t groups = 1, top_groups = 1;
  double bias_rate = 0.001;  // with sigmoid scores: how far a step moves the bias of an expert that got too little
  bool residual = false;     // a feed-forward part beside the experts, and a learned mix of the two (Rajbhandari et al.
                             // 2022, "DeepSpeed-MoE", section 4.1)
  std::int64_t shared = 0;   // experts that every token goes to, as one feed-forward part of so many times the width
  double balance_loss = 0.01, z_loss = 0;  // coefficients
  std::string network = "ffn";             // the kind of block that an expert is (plan/expert_kind.h)
  // Of each layer, those that are looked at: an equal part of them, neighbours. No part of the model: what a rank holds
  // (plan::ModelPart).
  ExpertShare held;
  bool operator==(const ExpertConfig&) const = default;
};

// Places of each expert in a gate group of `tokens`: max(ceil(top_k * tokens * factor / experts), min_capacity), at
// most `tokens`, the factor as the fraction that it is written as; 0: no bound.
std::int64_t expert_capacity(const ExpertConfig& experts, std::int64_t count, std::int64_t tokens, Pass pass);

// Rows that all experts together have at most of such a group.
std::int64_t expert_rows(const ExpertConfig& experts, std::int64_t count, std::int64_t tokens, Pass pass);

}  // namespace trainyard::plan
