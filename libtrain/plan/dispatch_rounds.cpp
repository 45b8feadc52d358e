// What the dispatch rounds of a plan send and cost.
#include "libtrain/plan/dispatch_rounds.h"

#include "libtrain/plan/blocks/expert_rounds.h"
#include "libtrain/plan/cost/expert_nodes.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

// The numbers of the model's layers that have experts.
std::vector<std::int64_t> layers_with_experts(const ModelConfig& m) {
  std::vector<std::int64_t> out;
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    if (layer_has_experts(m, layer)) out.push_back(layer);
  return out;
}

// What this layer sees of a micro-batch.
MicroShape shape_of_layer(const Plan& p, std::int64_t layer) {
  return is_in_encoder(p.model, layer) ? p.micro().of_source() : p.micro();
}

}  // namespace

// The most of any layer. With a different number of experts in each layer, a rank may hold fewer experts than a token
// chooses.
std::int64_t most_round_rows(const Plan& p) {
  std::int64_t most = 0;
  for (const auto layer : layers_with_experts(p.model))
    most = std::max(most, round_rows(layer_model(p.model, layer), shape_of_layer(p, layer)));
  return most;
}

bool crosses_in_rounds(const Plan& p) {
  return has_experts(p.model) && p.expert_parallel > 1 && p.tensor == 1 &&
         !(has_capacity(p.model.experts, Pass::train) && has_capacity(p.model.experts, Pass::evaluate));
}

std::vector<SizedCalls> further_round_calls(const Plan& p, std::span<const FurtherRounds> of_layers) {
  std::vector<SizedCalls> out;
  const auto layers = layers_with_experts(p.model);
  for (std::size_t i = 0; i < of_layers.size() && i < layers.size(); ++i) {
    const auto& made = of_layers[i];
    if (made.forward + made.backward + made.again == 0) continue;
    const auto m = layer_model(p.model, layers[i]);
    const auto add = [&](base::DType type, std::int64_t bytes, std::int64_t calls) {
      for (auto& c : expert_group_calls(p.experts(), {"all_to_all", type, bytes, calls}, 1))
        out.push_back(std::move(c));
    };
    add(p.dtype, round_row_bytes(m, shape_of_layer(p, layers[i])), 2 * made.forward + 2 * made.backward + made.again);
    add(base::DType::i32, round_group_bytes(m), made.forward + made.again);
  }
  return out;
}

std::string rounds_text(const Plan& p, base::Sizes sizes) {
  if (!has_experts(p.model)) return {};
  const auto layers = layers_with_experts(p.model);
  auto m = layer_model(p.model, layers.front());
  if (p.tensor > 1 || !crosses_in_rounds(m, p.micro().experts, Pass::train)) return {};
  const auto micros = p.batch().lockstep_micros();
  const auto recompute = recompute_of_layers(p);
  std::vector<FurtherRounds> further;
  std::int64_t rounds = 0, even = 0, rows = 0;
  for (const auto layer : layers) {
    m = layer_model(p.model, layer);
    const auto shape = shape_of_layer(p, layer);
    const auto here = most_alike_rounds(m, shape);
    rounds = std::max(rounds, here), even = std::max(even, even_rounds(m, shape));
    rows = std::max(rows, p.expert_parallel * std::min(m.experts.top_k, held_experts(m, shape.experts)) * shape.rows());
    const std::int64_t forwards = base::at(recompute, layer) == Recompute::layers ? 2 : 1;
    const auto again = here > 1 ? p.expert_parallel * here : 0;
    further.push_back({micros * forwards * (here - 1), micros * std::max<std::int64_t>(0, again - 1), micros * again});
  }
  std::int64_t bytes = 0;
  for (const auto& t : added_up(further_round_calls(p, further))) bytes += t.bytes;
  return fmt::format(
      "  experts without a capacity get their tokens in rounds of {} tokens a rank:\n    even load: {}\n    all tokens "
      "choose the same experts: {}, which send {} more a step{},\n    and one rank's experts compute {} tokens in a "
      "layer\n",
      most_round_rows(p), base::counted(even, "round"), base::counted(rounds, "round"), base::size_text(bytes, sizes),
      p.pipeline > 1 ? " over all stages" : "", rows);
}

}  // namespace trainyard::plan
