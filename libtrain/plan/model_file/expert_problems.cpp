// Checks a model's settings of experts.
#include "libtrain/plan/model_file/expert_problems.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

namespace trainyard::plan {

namespace {

constexpr double most_experts = 1 << 17;  // in all layers: each expert has a handful of named tensors

// Keys of experts that are set although the model has no experts.
std::string idle_keys(const ModelConfig& m) {
  if (m.experts == ExpertConfig()) return {};
  auto copy = m;
  ModelConfig usual;
  const auto usual_fields = fields_of(usual);
  std::string out;
  for (std::size_t i = 0; const auto& f : fields_of(copy))
    if (const auto& other = usual_fields[i++]; f.name.starts_with("experts-") && f.get() != other.get())
      out += fmt::format("{}{}", out.empty() ? "" : ", ", f.name);
  return out;
}

// Rules of the gate that do not fit the number of experts that a token chooses.
void rule_problems(const ExpertConfig& e, std::vector<std::string>& out) {
  if (e.placement == GatePlacement::choices && e.top_k != 2)
    out.push_back(fmt::format("experts-placement choices needs experts-top-k 2, not {}: leave it out", e.top_k));
  if (e.balance_over == BalanceOver::first && (e.top_k > 2 || (e.top_k == 2 && e.placement == GatePlacement::tokens)))
    out.emplace_back(
        "experts-balance-over first needs experts-top-k 1, or 2 without experts-placement tokens: set all, or leave it "
        "out");
  if (e.placement == GatePlacement::tokens && e.balance_over == BalanceOver::usual && e.top_k == 2)
    out.emplace_back("experts-placement tokens does not distinguish first choices: set experts-balance-over all");
  if (e.top_k == 1 && (e.weights == GateWeights::kept || e.weights == GateWeights::chosen))
    out.emplace_back(
        "experts-weights: with experts-top-k 1 a score divided by itself is 1, so the gate would learn nothing: set "
        "scores, or leave it out");
}

// Settings of group-limited choice that cannot work.
void group_problems(const ExpertConfig& e, std::vector<std::string>& out) {
  for (const auto count : e.count)
    if (count % e.groups != 0) {
      out.push_back(
          fmt::format("experts-groups {} does not divide the {} of a layer", e.groups, base::counted(count, "expert")));
      return;
    }
  const auto fewest = *std::min_element(e.count.begin(), e.count.end());
  if (e.top_groups > e.groups)
    out.push_back(fmt::format("experts-top-groups {} is more than experts-groups {}", e.top_groups, e.groups));
  else if (e.top_k <= fewest && e.top_groups * (fewest / e.groups) < e.top_k)
    out.push_back(fmt::format("experts-top-k {} is more than the {} of experts-top-groups {}", e.top_k,
                              base::counted(e.top_groups * (fewest / e.groups), "expert"), e.top_groups));
}

}  // namespace

std::vector<std::string> expert_problems(const ModelConfig& m) {
  std::vector<std::string> out;
  const auto& e = m.experts;
  if (std::count(m.branches.begin(), m.branches.end(), "experts") > 0)
    out.emplace_back(
        "branches name 'experts': name 'ffn' there and set experts-count; in layers with experts these replace it");
  if (!has_experts(m)) {
    if (const auto idle = idle_keys(m); !idle.empty())
      out.push_back(fmt::format("{} without experts: set experts-count, or leave {} out", idle,
                                idle.find(',') == std::string::npos ? "it" : "them"));
    return out;
  }
  if (std::count(m.branches.begin(), m.branches.end(), "ffn") != 1)
    out.emplace_back("experts replace the branch 'ffn', which the model's branches do not name");
  const auto layers = expert_layers(m);
  if (e.dense_layers >= m.layers) {
    out.push_back(fmt::format("no layer has experts: experts-dense-layers {} leaves none of {}; {} would leave one",
                              e.dense_layers, base::counted(m.layers, "layer"), m.layers - 1));
  } else if (layers == 0) {
    out.push_back(
        fmt::format("no layer has experts: of {} the first {} are dense, and after these only each {}-th layer has "
                    "experts; with experts-every {} one layer has",
                    base::counted(m.layers, "layer"), e.dense_layers, e.every, m.layers - e.dense_layers));
  } else if (e.count.size() > 1 && static_cast<std::int64_t>(e.count.size()) != layers) {
    out.push_back(fmt::format("experts-count lists {}, but {} of the model {} experts: list as many, or one for all",
                              base::counted(static_cast<std::int64_t>(e.count.size()), "number"),
                              base::counted(layers, "layer"), layers == 1 ? "has" : "have"));
  }
  double all = 0;
  for (const auto n : e.count) all += static_cast<double>(n) * (e.count.size() == 1 ? static_cast<double>(layers) : 1);
  if (all > most_experts)
    out.push_back(fmt::format("{:.0f} experts in all layers together: {:.0f} at most", all, most_experts));
  const auto fewest = *std::min_element(e.count.begin(), e.count.end());
  if (e.top_k > fewest)
    out.push_back(fmt::format("experts-top-k {} is more than the {} of a layer: {} at most", e.top_k,
                              base::counted(fewest, "expert"), fewest));
  rule_problems(e, out);
  group_problems(e, out);
  if (m.norm_position == NormPosition::post)
    out.emplace_back("norm-position post is not supported in layers with experts: leave it out, or the experts");
  if (e.residual && e.shared > 0)
    out.emplace_back(
        "experts-residual and experts-shared both add a feed-forward part beside the experts: use one of them");
  return out;
}

std::vector<std::string> unread_expert_keys(const ModelConfig& m) {
  std::vector<std::string> out;
  const auto& e = m.experts;
  const ExpertConfig usual;
  if (!has_experts(m)) return out;
  if (e.score != GateScore::sigmoid && e.bias_rate != usual.bias_rate)
    out.emplace_back("experts-bias-rate needs experts-score sigmoid, whose bias it moves: set that, or leave it out");
  const bool bounded =
      e.capacity_factor != "none" || (e.evaluation_capacity_factor != "none" && e.evaluation_capacity_factor != "same");
  for (const auto& [name, given] : {std::pair("experts-overflow", e.overflow != usual.overflow),
                                    std::pair("experts-min-capacity", e.min_capacity != usual.min_capacity)})
    if (given && !bounded)
      out.push_back(
          fmt::format("{} is for experts with a capacity, and experts-capacity-factor is none: leave it out", name));
  return out;
}

std::string expert_parallel_obstacle(const ModelConfig& m, int data, int tensor, int degree) {
  if (degree == 1) return {};
  if (!has_experts(m))
    return base::text("$expert-parallel {} needs experts, and the model has none: its layers are dense", degree);
  std::string undivided = data % degree == 0 ? "" : base::counted(data, "data-parallel rank");
  for (const auto count : m.experts.count)
    if (count % tensor == 0 &&
        count % (std::int64_t{tensor} * degree) != 0) {  // else the tensor-parallel degree is refused
      undivided += fmt::format("{}the {} of a layer{}", undivided.empty() ? "" : " nor ",
                               base::counted(count / tensor, "expert"), tensor > 1 ? " that a tensor rank has" : "");
      break;
    }
  return undivided.empty() ? "" : base::text("$expert-parallel {} does not divide {}", degree, undivided);
}

std::string expert_parallel_flags(const ModelConfig& m, int data, int tensor, int degree) {
  std::int64_t most = data;
  for (const auto count : m.experts.count) most = std::gcd(most, count / tensor);
  auto below = std::min<std::int64_t>(degree - 1, most), above = std::int64_t{degree} + 1;
  while (below > 1 && most % below != 0) --below;
  while (above < most && most % above != 0) ++above;
  const auto flag = [](std::int64_t e) { return base::text("$expert-parallel {}", e); };
  return above > most ? flag(std::max<std::int64_t>(1, below)) : flag(below) + " or " + flag(above);
}

}  // namespace trainyard::plan
