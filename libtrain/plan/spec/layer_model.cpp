// Which layers have experts, and what a layer sees of its model.
#include "libtrain/plan/spec/layer_model.h"

#include "libtrain/base/index.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/file_layout.h"

#include <algorithm>

namespace trainyard::plan {

bool layer_has_experts(const ModelConfig& m, std::int64_t layer) {
  const auto& e = m.experts;
  const auto at = layer_in_tower(m, layer);
  return has_experts(m) && at >= e.dense_layers && (at - e.dense_layers + 1) % e.every == 0;
}

std::int64_t expert_layers(const ModelConfig& m, std::int64_t layers) {
  if (!has_experts(m)) return 0;
  const auto of_tower = [&](std::int64_t first) {
    return std::max<std::int64_t>(0, first - m.experts.dense_layers) / m.experts.every;
  };
  const auto encoder = std::min(layers, m.encoder_layers);
  return of_tower(encoder) + of_tower(layers - encoder);
}

ModelConfig layer_model(const ModelConfig& m, std::int64_t layer) {
  auto out = m;
  const auto& layouts = m.attention.layout;
  const auto& windows = m.attention.window_tokens;
  auto& a = out.attention;
  const auto in_tower = base::size(layer_in_tower(m, layer));
  a.layout = {layouts.at(in_tower % layouts.size())};
  a.window_tokens = {windows.at(in_tower % windows.size())};
  if (is_in_encoder(m, layer)) a.causal = false;
  else if (has_encoder(m))
    out.branches.insert(std::find(out.branches.begin(), out.branches.end(), "attention") + 1, cross_attention_branch);
  if (m.rotary.local_base > 0) {
    const auto fraction = m.rotary.fraction;
    if (a.window_tokens[0] > 0) out.rotary_base = m.rotary.local_base, out.rotary = {}, out.rotary.fraction = fraction;
    out.rotary.local_base = 0;
  }
  if (a.layout[0] == "file") a.per_head = file_heads(a) > 1;
  else a.file.clear(), a.file_blocks.clear();
  if (!layer_has_experts(m, layer)) {
    out.experts = {};
    return out;
  }
  const auto& all = m.experts.count;
  const auto at = base::size(expert_layers(m, layer));
  out.experts.count = {all.size() == 1 ? all[0] : all.at(at)};
  std::replace(out.branches.begin(), out.branches.end(), std::string("ffn"), std::string("experts"));
  return out;
}

std::int64_t alike_layers(const ModelConfig& m, std::int64_t layer, std::int64_t end) {
  const auto& layouts = m.attention.layout;
  const auto& windows = m.attention.window_tokens;
  const auto of_layer = [&](const auto& list, std::int64_t other) {
    return list.at(base::size(layer_in_tower(m, other)) % list.size());
  };
  const auto layout_of = [&](std::int64_t other) { return of_layer(layouts, other); };
  const auto window_of = [&](std::int64_t other) { return of_layer(windows, other); };
  if (is_in_encoder(m, layer)) end = std::min(end, m.encoder_layers);
  if (!has_experts(m) && layouts.size() == 1 && windows.size() == 1) return end - layer;
  const auto same = [&](std::int64_t other) {
    if (layout_of(layer) != layout_of(other) || window_of(layer) != window_of(other)) return false;
    if (layer_has_experts(m, layer) != layer_has_experts(m, other)) return false;
    if (!layer_has_experts(m, layer) || m.experts.count.size() == 1) return true;
    return m.experts.count.at(base::size(expert_layers(m, layer))) ==
           m.experts.count.at(base::size(expert_layers(m, other)));
  };
  auto next = layer + 1;
  while (next < end && same(next)) ++next;
  return next - layer;
}

ModelConfig model_beside_experts(const ModelConfig& m) {
  auto out = m;
  if (m.experts.shared > 0) out.ffn = m.experts.shared * expert_width(m);
  return out;
}

}  // namespace trainyard::plan
