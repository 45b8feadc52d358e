// Checks low-rank adapters.
#include "libtrain/plan/model_file/adapter_problems.h"

#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

namespace trainyard::plan {

bool can_have_adapter(const ModelConfig& m, const AdapterTarget& target) {
  if (!target.layer.starts_with("ffn")) return true;
  return !has_experts(m) && (target.name != "gate" || is_gated(m));
}

std::vector<std::string> adapter_problems(const ModelConfig& m) {
  std::vector<std::string> out;
  if (!has_adapter(m)) return out;
  const auto& a = m.adapter;
  if (a.rank % adapter_rank_multiple != 0)
    out.push_back(fmt::format("adapter-rank {} is not a multiple of {}", a.rank, adapter_rank_multiple));
  if (a.rank > m.hidden) out.push_back(fmt::format("adapter-rank {} is above hidden {}", a.rank, m.hidden));
  for (std::size_t i = 0; i < a.on.size(); ++i)
    if (std::find(a.on.begin(), a.on.begin() + static_cast<std::ptrdiff_t>(i), a.on[i]) !=
        a.on.begin() + static_cast<std::ptrdiff_t>(i))
      out.push_back(fmt::format("adapter-on names '{}' twice", a.on[i]));
  if (a.is_on("gate") && !is_gated(m)) out.emplace_back("adapter-on gate: the activation has no gate");
  if (has_experts(m) && (a.is_on("gate") || a.is_on("up") || a.is_on("down")))
    out.emplace_back("beside experts only attention has adapters: leave gate, up and down out of adapter-on");
  for (const auto& branch : m.branches)
    if (branch != "attention" && branch != "ffn")
      out.push_back(fmt::format("adapters are for the branches attention and ffn, not for '{}'", branch));
  const auto has = [&](const char* branch) {
    return std::find(m.branches.begin(), m.branches.end(), branch) != m.branches.end();
  };
  for (const auto& target : adapter_targets)
    if (a.is_on(target.name) && !has(target.layer.starts_with("ffn") ? "ffn" : "attention"))
      out.push_back(fmt::format("adapter-on {}: no branch of a layer has it", target.name));
  return out;
}

}  // namespace trainyard::plan
