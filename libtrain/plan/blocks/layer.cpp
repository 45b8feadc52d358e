// Sums over the branches of a layer.
#include "libtrain/plan/blocks/layer.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/blocks/adapter.h"
#include "libtrain/plan/blocks/branch_registry.h"
#include "libtrain/plan/blocks/crossings.h"
#include "libtrain/plan/blocks/norm.h"
#include "libtrain/plan/blocks/products.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

bool apart(const ModelConfig& m, const MicroShape& s) {
  return s.weight_gradients == WeightGradients::apart && LayerKind().makes_weight_gradients_apart(m);
}

// Whether a branch skips its output when the layer runs forward again: if it can, and neither a norm nor another branch
// reads it.
bool skips_output(const ModelConfig& m, std::size_t branch) {
  return !is_post_norm(m) && !has_norm_behind(m) && (is_parallel(m) || branch + 1 == m.branches.size()) &&
         branch_kind(m.branches[branch]).skips_unread_output();
}

std::int64_t norms_of_branch(const ModelConfig& m) { return has_norm_before(m) && has_norm_behind(m) ? 2 : 1; }

}  // namespace

std::string layer_name(const ModelConfig& m, std::int64_t index) {
  const auto digits = std::max<std::size_t>(2, fmt::formatted_size("{}", m.layers - 1));
  const char* tower = !has_encoder(m) ? "" : is_in_encoder(m, index) ? "encoder." : "decoder.";
  return fmt::format("{}layers.{:0{}}", tower, layer_in_tower(m, index), digits);
}

std::vector<std::vector<SavedTensor>> layer_tensors(const ModelConfig& m, const MicroShape& s, Pass pass) {
  const bool keeps_gradients = pass == Pass::train && apart(m, s);
  std::vector<std::vector<SavedTensor>> groups;
  const auto end_with_gradients = [&] {
    if (keeps_gradients) groups.back().push_back(norm_gradients_tensor(m, s));
  };
  for (const auto& name : m.branches) {
    const bool copies = is_post_norm(m) ? groups.empty() : !has_norm_before(m);  // the input is the hidden states
    groups.push_back(copies ? std::vector<SavedTensor>{{"normed", s.dtype, s.own_rows(), m.hidden}}
                            : norm_tensors(m, s, pass));
    for (const auto& t : branch_kind(name).tensors(m, s, pass)) groups.back().push_back(t);
    if (!copies) end_with_gradients();
    if (!has_norm_behind(m)) continue;
    groups.push_back(only(norm_tensors(m, s, pass), Stays::always));
    end_with_gradients();
  }
  if (!is_post_norm(m)) return groups;
  groups.push_back(only(norm_tensors(m, s, pass), Stays::always));
  end_with_gradients();
  return groups;
}

bool LayerKind::makes_weight_gradients_apart(const ModelConfig& m) const {
  return !has_adapter(m) && !has_relative_positions(m) &&
         std::all_of(m.branches.begin(), m.branches.end(),
                     [](const auto& name) { return branch_kind(name).makes_weight_gradients_apart(); });
}

std::vector<FlatGroup> LayerKind::flat_groups(const ModelConfig& m, std::int64_t index) const {
  return held_flat_groups(m, index, {});
}

std::vector<FlatGroup> LayerKind::held_flat_groups(const ModelConfig& m, std::int64_t index,
                                                   const ExpertShare& experts) const {
  Declaration d(m, layer_name(m, index), Part::layers);
  for (const auto& name : m.branches) {
    const auto& branch = branch_kind(name);
    d.norm(branch.prefix() + "_norm");
    if (norms_of_branch(m) == 2) d.norm(branch.prefix() + "_post_norm");
    branch.declare(d);
  }
  std::vector<FlatGroup> all;
  all.push_back(d.take());
  if (has_adapter(m)) all.push_back(adapter_flat_group(m, layer_name(m, index)));
  const auto before = all.size();
  for (const auto& name : m.branches)
    if (const auto& branch = branch_kind(name); branch.has_own_flat_group())
      all.push_back(branch.own_flat_group(m, layer_name(m, index), experts));
  TRAINYARD_ASSERT(all.size() <= before + 1, "{} branches of a layer have flat groups of their own",
                   all.size() - before);
  return all;
}

// As by default, but without the names of their parameters: plans ask often.
std::vector<FlatGroupOccurrence> LayerKind::occurrences(const ModelConfig& m) const {
  std::vector<FlatGroupOccurrence> all{{0, {}}};
  int own = 1;
  if (has_adapter(m)) all.push_back({own++, {}});
  if (has_relative_positions(m)) all.push_back({-1, relative_positions_flat_group(m)});
  for (const auto& name : m.branches)
    if (branch_kind(name).has_own_flat_group()) all.push_back({own++, {}});
  return all;
}

// A branch leases its own flat group while it runs, inside the lease of the layer's group. Adapters and the tower's
// table of relative positions are leased as long as the layer's group. With adapters all other groups are frozen.
BlockAccesses LayerKind::accesses(const ModelConfig& m) const {
  using Kind = Access::Kind;
  const auto own = std::count_if(m.branches.begin(), m.branches.end(),
                                 [](const auto& b) { return branch_kind(b).has_own_flat_group(); });
  const auto n = 1 + (has_adapter(m) ? 1 : 0) + (has_relative_positions(m) ? 1 : 0) + static_cast<int>(own);
  BlockAccesses a;
  for (int occurrence = 0; occurrence < n; ++occurrence) {
    a.forward.push_back(occurrence), a.evaluation.push_back(occurrence);
    a.backward.push_back({Kind::lease, occurrence});
  }
  for (int occurrence = n; occurrence-- > 0;)
    if (!has_adapter(m) || occurrence == 1) a.backward.push_back({Kind::commit, occurrence});
  return a;
}

std::int64_t LayerKind::saved_bytes(const ModelConfig& m, const MicroShape& s) const {
  std::int64_t bytes = 0;
  for (const auto& group : layer_tensors(m, s, Pass::train)) bytes += total_bytes(group);
  return bytes;
}

std::int64_t LayerKind::evaluation_bytes(const ModelConfig& m, const MicroShape& s) const {
  std::int64_t most = 0;
  for (const auto& group : layer_tensors(m, s, Pass::evaluate)) most = std::max(most, total_bytes(group));
  return most;
}

// While a branch runs, what it does not keep lies above what it keeps and what the branches before it keep.
StackBytes LayerKind::selective_bytes(const ModelConfig& m, const MicroShape& s) const {
  StackBytes bytes{0, 0, 0};
  for (const auto& all : layer_tensors(m, s, Pass::train)) {
    bytes.most = std::max(bytes.most, bytes.kept + total_bytes(all));
    bytes.kept += total_bytes(only(all, Stays::always));
    bytes.passing = std::max(bytes.passing, total_bytes(only(all, Stays::unless_selective)));
  }
  return bytes;
}

StackBytes LayerKind::selective_evaluation_bytes(const ModelConfig& m, const MicroShape& s) const {
  StackBytes bytes{0, 0, 0};
  for (const auto& all : layer_tensors(m, s, Pass::evaluate)) {
    bytes.most = std::max(bytes.most, total_bytes(all));
    bytes.kept = std::max(bytes.kept, total_bytes(only(all, Stays::always)));
    bytes.passing = std::max(bytes.passing, total_bytes(only(all, Stays::unless_selective)));
  }
  return bytes;
}

// All branches share one buffer for their output. Side by side, they share one for the sum of their outputs, too.
std::int64_t LayerKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass pass) const {
  std::int64_t most = 0;
  for (const auto& name : m.branches) most = std::max(most, branch_kind(name).forward_workspace_bytes(m, s, pass));
  return (is_parallel(m) ? 2 : 1) * Products(m, s).stream(m.hidden) + most;
}

// First comes the gradient of a norm's output, then the branch's buffers. These are freed before the norm's scratch is
// allocated. With post-norm, the norm works alone. With weight gradients apart or a norm behind branches, the gradient
// of the branch's output is there, too; with post-norm it lies in what the norm has read. Side by side, branches share
// the gradient of the layer's output. Later, weight gradients have the whole scratch.
std::int64_t LayerKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const auto stream = Products(m, s).stream(m.hidden), norm = norm_workspace_bytes(m, s);
  const auto most_of = [&](std::int64_t branches, bool own_output) {
    if (is_post_norm(m)) return std::max(stream + branches, norm);
    if (!has_norm_before(m)) return std::max(2 * stream + branches, stream + norm);
    return (1 + (own_output || has_norm_behind(m) ? 1 : 0) + (is_parallel(m) ? 1 : 0)) * stream +
           std::max(branches, norm);
  };
  if (apart(m, s)) {
    std::int64_t inputs = 0, weights = 0;
    for (const auto& name : m.branches) {
      inputs = std::max(inputs, branch_kind(name).input_gradients_workspace_bytes(m, s));
      weights = std::max(weights, branch_kind(name).weight_gradients_workspace_bytes(m, s));
    }
    return std::max(most_of(inputs, true), weights);
  }
  std::int64_t most = 0;
  for (const auto& name : m.branches) most = std::max(most, branch_kind(name).backward_workspace_bytes(m, s));
  return most_of(most, false);
}

// The calls of the branches and of their norms. Weight gradients that are computed apart gather the output's gradient
// once more.
std::vector<GroupCall> LayerKind::tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                               Recompute recompute) const {
  using Again = BranchKind::Again;
  std::vector<GroupCall> all;
  for (std::size_t branch = 0; branch < m.branches.size(); ++branch) {
    const auto again = skips_output(m, branch) ? Again::all_but_output : Again::output;
    for (const auto& call : branch_kind(m.branches[branch]).tensor_calls(m, s, pass, recompute, again))
      all.push_back(call);
    if (pass != Pass::train) continue;
    Crossings calls(m, s);
    for (std::int64_t norm = 0; norm < norms_of_branch(m); ++norm) calls.norm_gradients();
    if (apart(m, s)) calls.all_rows();
    for (const auto& call : calls.take()) all.push_back(call);
  }
  return all;
}

std::vector<GroupCall> LayerKind::expert_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                               Recompute recompute) const {
  std::vector<GroupCall> calls;
  for (const auto& name : m.branches)
    for (const auto& call : branch_kind(name).expert_calls(m, s, pass, recompute)) calls.push_back(call);
  return calls;
}

double LayerKind::forward_flops(const ModelConfig& m, const Lengths& lengths) const {
  double flops = 0;
  for (const auto& name : m.branches) flops += branch_kind(name).forward_flops(m, lengths);
  return flops;
}

double LayerKind::recompute_flops(const ModelConfig& m, const Lengths& lengths) const {
  auto flops = forward_flops(m, lengths);
  for (std::size_t branch = 0; branch < m.branches.size(); ++branch)
    if (skips_output(m, branch)) flops -= branch_kind(m.branches[branch]).output_flops(m);
  return flops;
}

double LayerKind::frozen_flops(const ModelConfig& m, const Lengths&) const {
  double flops = 0;
  if (has_adapter(m))
    for (const auto& name : m.branches) flops += branch_kind(name).frozen_flops(m);
  return flops;
}

double LayerKind::apart_flops(const ModelConfig& m, const Lengths&) const {
  double flops = 0;
  if (makes_weight_gradients_apart(m))
    for (const auto& name : m.branches) flops += branch_kind(name).apart_flops(m);
  return flops;
}

// Of each branch, the norm reads its input and writes its output, and the residual addition reads both its terms and
// writes their sum; apart kernels also write what dropout left out. Their backward reads the gradient, too. A norm
// behind a branch also copies its input, and so does a branch without a norm before it.
BlockWork LayerKind::work(const ModelConfig& m, const MicroShape& s, AttentionKernels kernels) const {
  const double row = static_cast<double>(s.own_rows()) * static_cast<double>(m.hidden),
               e = static_cast<double>(s.element_bytes());
  BlockWork out;
  for (const auto& name : m.branches) {
    out.add(branch_kind(name).work(m, s, kernels));
    if (has_norm_behind(m)) out.forward.bytes += row * 2 * e;
    if (norms_of_branch(m) == 2) {
      out.forward.bytes += row * 2 * e;
      out.backward.bytes += row * (2 * e + 3 * e);
    }
    if (has_norm_before(m) || is_post_norm(m)) out.again.bytes += row * 2 * e;
    out.forward.bytes += row * (2 * e + 3 * e + (kernels == AttentionKernels::apart ? 1 : 0));
    out.backward.bytes += row * (3 * e + 2 * e + (kernels == AttentionKernels::apart ? 1 : 0) + 3 * e);
  }
  return out;
}

}  // namespace trainyard::plan
