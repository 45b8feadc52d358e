// Sections of flat groups, their bytes and their sums.
#include "libtrain/plan/cost/parameter_norms.h"

#include "libtrain/base/aligned.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

std::int64_t bytes_of_digits(std::int64_t parameters) { return parameters * digits_of_norms * 8; }

}  // namespace

NormRanks norm_ranks(const FlatGroup& flat_group) {
  return {flat_group.group, !includes(flat_group.others, Axis::tensor)};
}

std::int64_t normed_parameters(const FlatGroup& flat_group) {
  return std::count_if(flat_group.parameters.begin(), flat_group.parameters.end(),
                       [](const Parameter& p) { return p.update.kind == Update::Kind::optimizer; });
}

std::vector<NormSection> norm_sections(const FlatGroupTable& table) {
  std::vector<NormSection> out;
  for (const auto& e : table.entries()) {
    const auto ranks = norm_ranks(e.flat_group);
    auto same = std::find_if(out.begin(), out.end(), [&](const NormSection& s) { return s.ranks == ranks; });
    if (same == out.end()) same = out.insert(out.end(), {ranks, 0});
    same->parameters += e.times * normed_parameters(e.flat_group);
  }
  return out;
}

std::int64_t parameter_norm_bytes(const FlatGroupTable& table, const OptimizerKind& optimizer) {
  if (!optimizer.has_parameter_norms()) return 0;
  const bool has_ratios = optimizer.collective == OptimizerKind::Collective::parameter_norms;
  std::int64_t bytes = 0;
  for (const auto& s : norm_sections(table))
    bytes += base::aligned(bytes_of_digits(s.parameters)) + (has_ratios ? base::aligned(s.parameters * 4) : 0);
  return bytes;
}

std::vector<SizedCalls> parameter_norm_calls(const FlatGroupTable& table, const StateShape& shape) {
  std::vector<SizedCalls> out;
  if (!shape.optimizer->has_parameter_norms()) return out;
  for (const auto& s : norm_sections(table)) {
    const auto add = [&](Axes axes) {
      if (const int ranks = shape.topology.size(axes); ranks > 1)
        out.push_back({axes, ranks, "all_reduce", base::DType::i64, bytes_of_digits(s.parameters), 1, 1});
    };
    add(s.ranks.group);
    if (s.ranks.tensor) add({Axis::tensor});
  }
  return out;
}

}  // namespace trainyard::plan
