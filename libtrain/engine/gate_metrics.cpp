// From whole numbers to shares and means.
#include "libtrain/engine/gate_metrics.h"

#include "kernels/gate_record/gate_record_args.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>

namespace trainyard::engine {

namespace {

double over(double part, std::int64_t whole) { return whole > 0 ? part / static_cast<double>(whole) : 0; }

LayerGate layer_gate(std::int64_t layer, std::int64_t experts, std::span<const std::int64_t> record) {
  const auto loads = record.subspan(kernels::gate_record_sums, base::size(experts));
  std::int64_t choices = 0;
  for (const auto load : loads) choices += load;
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  const auto load_of = [&](std::int64_t of) {
    return over(static_cast<double>(of) * static_cast<double>(experts), choices);
  };
  const auto mean = [&](kernels::GateRecordSum sum) {
    return over(static_cast<double>(record[sum]) * kernels::gate_record_unit, record[kernels::target_sum]);
  };
  LayerGate g;
  g.layer = layer, g.experts = experts;
  g.choices.assign(loads.begin(), loads.end());
  g.kept = record[kernels::kept_places], g.dropped = choices - g.kept;
  g.dropped_share = over(static_cast<double>(g.dropped), choices);
  g.fullest = load_of(*most), g.emptiest = load_of(*least);
  g.fullest_expert = std::find(loads.begin(), loads.end(), *most) - loads.begin();
  g.balance_loss = mean(kernels::balance_sum), g.z_loss = mean(kernels::z_sum), g.entropy = mean(kernels::entropy_sum);
  return g;
}

std::string percents(double share) { return fmt::format("{:.0f} %", 100 * share); }

// Words for the share of tokens that an expert got at least.
const char* words_of(double share) {
  if (share >= 1) return "every token";
  if (share > 0.9) return "more than nine tenths of the tokens";
  return share > 0.75 ? "more than three quarters of the tokens" : "more than half of the tokens";
}

}  // namespace

GateRecordShape gate_record_shape(const plan::ModelConfig& model) {
  if (!plan::has_experts(model)) return {};
  const auto& count = model.experts.count;
  return {plan::expert_layers(model), kernels::gate_record_sums + *std::max_element(count.begin(), count.end())};
}

GateMetrics gate_metrics(const plan::ModelConfig& model, std::span<const std::int64_t> records) {
  const auto shape = gate_record_shape(model);
  TRAINYARD_ASSERT(std::ssize(records) == shape.count(), "records of {} numbers, not {} x {}", records.size(),
                   shape.rows, shape.width);
  GateMetrics out;
  std::int64_t kept = 0, dropped = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (!plan::layer_has_experts(model, layer)) continue;
    const auto row = base::size(plan::expert_layers(model, layer) * shape.width);
    const auto& g = out.layers.emplace_back(layer_gate(layer, plan::expert_count(plan::layer_model(model, layer)),
                                                       records.subspan(row, base::size(shape.width))));
    kept += g.kept, dropped += g.dropped;
    out.fullest = std::max(out.fullest, g.fullest);
    out.weighted_balance_loss += model.experts.balance_loss * g.balance_loss;
    out.weighted_z_loss += model.experts.z_loss * g.z_loss;
  }
  out.dropped_share = over(static_cast<double>(dropped), kept + dropped);
  return out;
}

double GateWatch::share_of_tokens(const LayerGate& g) const {
  return over(g.fullest * static_cast<double>(model_.experts.top_k), g.experts);
}

bool GateWatch::prefers_one(const LayerGate& g) const {
  const auto k = model_.experts.top_k;
  if (k == 1) return g.experts >= 4 && share_of_tokens(g) > 0.5;
  return k < g.experts && share_of_tokens(g) > 0.9;
}

std::string GateWatch::sentence(const LayerGate& g, double least) const {
  const auto& e = model_.experts;
  return base::text(
      "the gate of layer {} {}: in each of the last {} steps one expert got {}; in the last step expert {} got {} of "
      "the tokens (an even share is {}); what helps: a larger experts-balance-loss (it is {}), {}{}a smaller "
      "$learning-rate",
      g.layer, least > 0.9 ? "has collapsed" : "is very uneven", steps, words_of(least), g.fullest_expert,
      percents(share_of_tokens(g)), percents(static_cast<double>(e.top_k) / static_cast<double>(g.experts)),
      base::number_text(e.balance_loss), e.z_loss > 0 ? "a larger experts-z-loss, " : "an experts-z-loss, ",
      e.noise == plan::GateNoise::none ? "experts-noise \"jitter\", " : "");
}

std::string GateWatch::recovered(const LayerGate& g) const {
  return fmt::format(
      "the gate of layer {} has recovered: in none of the last {} steps one expert got so many tokens; in the last "
      "step expert {} got the most, {}",
      g.layer, steps, g.fullest_expert, percents(share_of_tokens(g)));
}

std::vector<std::string> GateWatch::look(const GateMetrics& metrics) {
  rows_.resize(metrics.layers.size());
  std::vector<std::string> out;
  for (std::size_t i = 0; i < metrics.layers.size(); ++i) {
    auto& row = rows_[i];
    const auto& gate = metrics.layers[i];
    if (prefers_one(gate) == row.reported) row = {row.reported, 0, 1};
    else ++row.steps, row.least = std::min(row.least, share_of_tokens(gate));
    if (row.steps < steps) continue;
    out.push_back(row.reported ? recovered(gate) : sentence(gate, row.least));
    row = {!row.reported, 0, 1};
  }
  return out;
}

}  // namespace trainyard::engine
