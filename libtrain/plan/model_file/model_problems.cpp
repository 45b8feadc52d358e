// Checks a model.
#include "libtrain/plan/model_file/model_problems.h"

#include "libtrain/base/fields.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/blocks/branch_registry.h"
#include "libtrain/plan/model_file/adapter_problems.h"
#include "libtrain/plan/model_file/attention_problems.h"
#include "libtrain/plan/model_file/encoder_problems.h"
#include "libtrain/plan/model_file/expert_problems.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/rotary_problems.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

std::vector<std::string> problems(const ModelConfig& m) {
  std::vector<std::string> out;
  auto copy = m;
  base::Complaints complaints;
  for (const auto& f : fields_of(copy))
    if (const auto text = f.get(); f.kind != base::FieldKind::integers && text.size() > longest_text(f))
      out.push_back(fmt::format("{} is {} bytes long, more than {}", f.name, text.size(), longest_text(f)));
    else complaints.attempt([&] { f.set(text, f.name); });
  for (const auto& [message, hint] : complaints.list()) out.push_back(message);
  if (m.vocabulary == 0)
    out.push_back(base::text("the vocabulary is not known: it comes from the shards, or from $vocabulary"));
  if (m.lanes == 0) out.push_back("the lanes are not decided");
  if (!out.empty()) return out;
  // The prefix names parameters and dropout sites.
  std::vector<std::string> prefixes;
  for (const auto& name : m.branches) {
    prefixes.push_back(branch_kind(name).prefix());
    if (std::count(prefixes.begin(), prefixes.end(), prefixes.back()) == 2)
      out.push_back(fmt::format("two branches of a layer are called '{}': their parameters would have one name",
                                prefixes.back()));
  }
  if (m.head_size == 0 && m.hidden % m.heads != 0)
    out.push_back(fmt::format("hidden {} is not a multiple of heads {}", m.hidden, m.heads));
  else
    for (auto& text : rotary_problems(m)) out.push_back(std::move(text));
  if (m.heads % m.kv_heads != 0)
    out.push_back(fmt::format("heads {} is not a multiple of kv-heads {}", m.heads, m.kv_heads));
  if (m.head == HeadForm::masked && is_gated(m))
    out.emplace_back("head masked does not support swiglu and geglu: use gelu-erf or gelu-tanh");
  if (m.norm_offset != 0 && m.norm_offset != 1)
    out.push_back(fmt::format("norm-offset is 0 or 1, not {}", m.norm_offset));
  if (m.position_offset > 0 && m.positions != Positions::learned)
    out.emplace_back("position-offset needs learned positions: leave it out");
  if (m.parallel_residual && m.norm_position != NormPosition::pre)
    out.emplace_back("parallel-residual needs norm-position pre: leave one of them out");
  if (m.dropout_ffn > 0 && has_experts(m))
    out.emplace_back("dropout-ffn is not supported with experts: leave one of them out");
  if (drops_final_norms(m) && !has_final_norm(m))
    out.emplace_back("dropout-final-norm needs a final norm, and norm-position post has none: leave one of them out");
  if (m.head == HeadForm::masked && (scales_head(m) || drops_final_norms(m)))
    out.emplace_back("head masked does not support head-scale and dropout-final-norm: leave them out");
  const auto sliced = [&](const char* what, std::int64_t width) {
    if (width % m.lanes != 0) out.push_back(fmt::format("{} {} is not a multiple of lanes {}", what, width, m.lanes));
  };
  sliced("kv-heads", m.kv_heads);
  sliced("ffn", m.ffn);
  sliced("the stored vocabulary", m.stored_vocabulary());
  if (has_experts(m)) sliced("the experts' width", expert_width(m));
  for (auto& text : adapter_problems(m)) out.push_back(std::move(text));
  for (auto& text : encoder_problems(m)) out.push_back(std::move(text));
  for (auto& text : attention_problems(m)) out.push_back(std::move(text));
  for (auto& text : expert_problems(m)) out.push_back(std::move(text));
  return out;
}

}  // namespace trainyard::plan
