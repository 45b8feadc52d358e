// What a hierarchical all-to-all sends and needs.
#include "libtrain/plan/cost/expert_nodes.h"

#include "libtrain/base/aligned.h"

#include <algorithm>
#include <string_view>

namespace trainyard::plan {

namespace {

constexpr std::string_view all_to_all = "all_to_all";

}  // namespace

std::vector<SizedCalls> expert_group_calls(const ExpertShare& share, const GroupCall& call, std::int64_t times) {
  const auto in = [&](Axis axis, int ranks) {
    return SizedCalls{axis, ranks, call.operation, call.type, call.bytes, times * call.calls, times * call.calls};
  };
  if (share.node == 1 || call.operation != all_to_all) return {in(Axis::expert, share.across())};
  return {in(Axis::expert_inner, share.node), in(Axis::expert_outer, share.across() / share.node)};
}

std::int64_t expert_hop_bytes(const ModelPart& part, const MicroShape& s, Pass pass) {
  if (part.experts.node == 1) return 0;
  auto most = pass == Pass::train ? expert_hop_bytes(part, s, Pass::evaluate) : 0;
  for (const auto& segment : segments(part)) {
    const auto shape = segment.shape(part.own_shape(s));
    for (const auto& call : segment.kind->expert_calls(segment.model, shape, pass, Recompute::none))
      if (call.operation == all_to_all) most = std::max(most, call.bytes);
  }
  return most;
}

std::int64_t expert_staging_bytes(const ModelPart& part, const MicroShape& s, Pass pass) {
  return 2 * base::aligned(expert_hop_bytes(part, s, pass));
}

}  // namespace trainyard::plan
