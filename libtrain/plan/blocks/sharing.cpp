// Divides the dims of a model by tensor-parallel degrees.
#include "libtrain/plan/blocks/sharing.h"

#include "libtrain/base/index.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/grid/ranges.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

// Of layers that are alike, the first is checked.
Sharing::Sharing(const ModelConfig& m)
    : kv_heads_(m.kv_heads), shared_{{"kv-heads", m.kv_heads},
                                     {"ffn", m.ffn},
                                     {"the stored vocabulary", m.stored_vocabulary()}} {
  for (const auto count : m.experts.count) shared_.push_back({"the experts of a layer,", count});
  for (const auto& segment : segments(m))
    for (const auto& flat_group : segment.kind->flat_groups(segment.model, segment.first))
      for (const auto& p : flat_group.parameters)
        if (p.sharded && p.sharded->axis == Axis::tensor)
          shared_.push_back(
              {fmt::format("dim {} of '{}',", p.sharded->dim, p.name), base::at(p.stored, p.sharded->dim)});
}

std::string Sharing::obstacle(std::int64_t tensor) const {
  if (tensor > kv_heads_)
    return base::text("$tensor-parallel {} is more than the model's {} key-value heads: some ranks would have none",
                      tensor, kv_heads_);
  for (const auto& s : shared_)
    if (s.size % tensor != 0) return base::text("$tensor-parallel {} does not divide {} {}", tensor, s.what, s.size);
  return {};
}

std::vector<std::int64_t> Sharing::nearest(std::int64_t tensor, const std::function<bool(std::int64_t)>& also) const {
  const auto possible = [&](std::int64_t t) { return obstacle(t).empty() && also(t); };
  std::vector<std::int64_t> out;
  auto below = std::min(tensor - 1, kv_heads_);
  while (below > 1 && !possible(below)) --below;
  out.push_back(std::max<std::int64_t>(1, below));
  for (auto above = tensor + 1; above <= std::min<std::int64_t>(kv_heads_, ranges::tensor.high); ++above)
    if (possible(above)) {
      out.push_back(above);
      break;
    }
  return out;
}

std::string tensor_flags(const std::vector<std::int64_t>& degrees) {
  std::string out;
  for (const auto t : degrees) out += base::text("{}$tensor-parallel {}", out.empty() ? "" : " or ", t);
  return out;
}

}  // namespace trainyard::plan
