// Layouts, windows and caps of attention in a line.
#include "libtrain/plan/attention_text.h"

#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace trainyard::plan {

namespace {

// "a window of 4,096 tokens in 2 layers", for each window in the order of the first layer that has it.
std::string windows_text(const ModelConfig& m) {
  std::vector<std::pair<std::int64_t, std::int64_t>> layers_of;  // a window, and its layers
  for (std::int64_t l = 0; l < m.layers; ++l) {
    const auto window = m.attention.window_tokens.at(base::size(l) % m.attention.window_tokens.size());
    if (window == 0) continue;
    const auto known =
        std::find_if(layers_of.begin(), layers_of.end(), [&](const auto& known) { return known.first == window; });
    if (known == layers_of.end()) layers_of.emplace_back(window, 1);
    else ++known->second;
  }
  std::string out;
  for (const auto& [window, layers] : layers_of)
    out += fmt::format("{}a window of {} in {}", out.empty() ? "" : "; ", base::counted(window, "token"),
                       base::counted(layers, "layer"));
  return out;
}

}  // namespace

std::string attention_text(const ModelConfig& m, std::int64_t sequence) {
  const auto& layouts = m.attention.layout;
  std::string out;
  bool any_blocks = false;
  for (std::size_t first = 0; first < layouts.size(); ++first) {
    if (std::find(layouts.begin(), layouts.begin() + static_cast<std::ptrdiff_t>(first), layouts[first]) !=
        layouts.begin() + static_cast<std::ptrdiff_t>(first))
      continue;
    std::int64_t layers = 0;
    for (std::int64_t l = 0; l < m.layers; ++l)
      layers += static_cast<std::int64_t>(layouts[base::size(l) % layouts.size()] == layouts[first]);
    if (layers == 0) continue;
    const auto seen = layer_model(m, static_cast<std::int64_t>(first));
    out += fmt::format("{}{} in {}", out.empty() ? "" : "; ", layouts[first], base::counted(layers, "layer"));
    if (!is_sparse(seen)) continue;
    any_blocks = true;
    const auto blocks = block_count(seen, sequence), heads = seen.attention.per_head ? seen.heads : 1;
    const auto n = (sequence + seen.attention.block - 1) / seen.attention.block;
    out +=
        fmt::format(": {} of {} blocks of {}{} ({:.1f} %)", base::count_text(blocks),
                    base::count_text(heads * (seen.attention.causal ? n * (n + 1) / 2 : n * n)), seen.attention.block,
                    heads > 1 ? fmt::format(" in {} heads", heads) : "", 100 * density(seen, sequence));
  }
  const auto add = [&](const std::string& text) {
    if (!text.empty()) out += (out.empty() ? "" : "; ") + text;
  };
  if (!any_blocks) out.clear();
  add(windows_text(m));
  if (m.attention.softcap > 0) add(fmt::format("scores capped at {}", m.attention.softcap));
  return out;
}

std::int64_t most_attention_list_bytes(const Plan& p) {
  std::int64_t most = 0;
  for (int stage = 0; stage < p.pipeline; ++stage)
    most = std::max(most, attention_list_bytes(p.part_of_stage(stage), p.sequence));
  return most;
}

}  // namespace trainyard::plan
