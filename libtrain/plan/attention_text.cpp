// Layouts of attention in a line.
#include "libtrain/plan/attention_text.h"

#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

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
  return any_blocks ? out : "";
}

std::int64_t most_attention_list_bytes(const Plan& p) {
  std::int64_t most = 0;
  for (int stage = 0; stage < p.pipeline; ++stage)
    most = std::max(most, attention_list_bytes(p.part_of_stage(stage), p.sequence));
  return most;
}

}  // namespace trainyard::plan
