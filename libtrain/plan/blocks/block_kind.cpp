// The defaults of most kinds.
#include "libtrain/plan/blocks/block_kind.h"

#include "libtrain/plan/blocks/adapter.h"
#include "libtrain/plan/blocks/crossings.h"

namespace trainyard::plan {

StackBytes BlockKind::selective_bytes(const ModelConfig& model, const MicroShape& shape) const {
  const auto bytes = saved_bytes(model, shape);
  return {bytes, bytes};
}

StackBytes BlockKind::selective_evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const {
  const auto bytes = evaluation_bytes(model, shape);
  return {bytes, bytes};
}

std::vector<FlatGroup> BlockKind::held_flat_groups(const ModelConfig& model, std::int64_t index,
                                                   const ExpertShare&) const {
  return flat_groups(model, index);
}

std::vector<FlatGroupOccurrence> BlockKind::occurrences(const ModelConfig& model) const {
  std::vector<FlatGroupOccurrence> all(flat_groups(model, 0).size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i].own = static_cast<int>(i);
  return all;
}

BlockAccesses BlockKind::accesses(const ModelConfig& model) const {
  BlockAccesses a;
  const auto n = static_cast<int>(occurrences(model).size());
  for (int occurrence = 0; occurrence < n; ++occurrence) {
    a.forward.push_back(occurrence);
    a.evaluation.push_back(occurrence);
    a.backward.push_back({Access::Kind::lease, occurrence});
  }
  for (int occurrence = 0; occurrence < n; ++occurrence) a.backward.push_back({Access::Kind::commit, occurrence});
  return a;
}

double BlockKind::recompute_flops(const ModelConfig& model, const Lengths& lengths) const {
  return forward_flops(model, lengths);
}

namespace {

BlockWork work_of_flops(const ModelConfig& m, const MicroShape& s, double flops_of_token) {
  BlockWork out;
  const auto inner = static_cast<std::int64_t>(flops_of_token / 2 / static_cast<double>(m.hidden) / s.tensor);
  if (inner > 0) out.linear(s.rows(), m.hidden, inner);
  return out;
}

}  // namespace

BlockWork BlockKind::work(const ModelConfig& m, const MicroShape& s, AttentionKernels) const {
  return work_of_flops(m, s, forward_flops(m, s.lengths()));
}
BlockWork BranchKind::work(const ModelConfig& m, const MicroShape& s, AttentionKernels) const {
  return work_of_flops(m, s, forward_flops(m, s.lengths()));
}

std::vector<GroupCall> BlockKind::tensor_calls(const ModelConfig&, const MicroShape&, Pass, Recompute) const {
  return {};
}
std::vector<GroupCall> BlockKind::expert_calls(const ModelConfig&, const MicroShape&, Pass, Recompute) const {
  return {};
}

std::vector<GroupCall> BranchKind::tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                                Recompute recompute, Again again) const {
  Crossings calls(m, s);
  calls.all_rows().add_up();
  const auto with_adapters = [&] {
    auto all = calls.take();
    for (const auto& call : adapter_calls(m, s, pass, recompute, prefix())) all.push_back(call);
    return all;
  };
  if (pass != Pass::train) return with_adapters();
  if (recompute == Recompute::layers) {
    calls.all_rows();
    if (again == Again::output) calls.add_up();
  }
  if (reads_input_in_backward(m, prefix())) calls.all_rows();
  calls.all_rows().add_up();
  return with_adapters();
}

}  // namespace trainyard::plan
