// A branch of a program outside the library: x + B A norm(x), of rank 8. Its description, its code and its
// registration.
#pragma once

#include "kernels/linear/linear.h"
#include "libtrain/model/assemble.h"
#include "libtrain/plan/blocks/products.h"

#include <algorithm>

namespace low_rank {

using namespace trainyard;
using Config = plan::ModelConfig;
using Shape = plan::MicroShape;
constexpr std::int64_t r = 8;

struct Kind : plan::BranchKind {
  std::string prefix() const override { return "low_rank"; }
  void declare(plan::Declaration& flat_group) const override {
    flat_group.weight("low_rank.a.weight", r, flat_group.model().hidden);
    flat_group.residual_weight("low_rank.b.weight", flat_group.model().hidden, r);
  }
  std::vector<plan::SavedTensor> tensors(const Config&, const Shape& s, plan::Pass) const override {
    return {{"inner", s.dtype, s.rows(), r}};
  }
  std::int64_t forward_workspace_bytes(const Config& m, const Shape& s, plan::Pass) const override {
    const plan::Products p(m, s);
    return std::max(p.linear(r, m.hidden), p.linear(m.hidden, r));
  }
  std::int64_t backward_workspace_bytes(const Config& m, const Shape& s) const override {
    const plan::Products p(m, s);
    const auto gradient = [&](auto out, auto in) {
      return p.product(out, in, s.rows(), plan::Products::Result::accumulation);
    };
    return p.rows(r) +
           std::max({gradient(m.hidden, r), p.linear(r, m.hidden), gradient(r, m.hidden), p.linear(m.hidden, r)});
  }
  double forward_flops(const Config& m, const plan::Lengths&) const override {
    return 4.0 * r * static_cast<double>(m.hidden);
  }
};

struct Branch : model::Branch {
  explicit Branch(const model::BranchSpec& spec)
      : a(plan::index_of(spec.flat_group, "low_rank.a.weight")),
        b(plan::index_of(spec.flat_group, "low_rank.b.weight")) {}
  void forward(model::Step& step, const params::Lease& lease, const model::SavedSet& t,
               base::View output) const override {
    kernels::linear_forward(step.exec, t["normed"], lease.weight(a), {}, t["inner"]);
    kernels::linear_forward(step.exec, t["inner"], lease.weight(b), {}, output);
  }
  void backward(model::Step& step, const params::Lease& lease, const params::Grads& grads,
                const model::OutputGradient& gradient, const model::SavedSet& t, base::View d_normed) const override {
    const auto d_inner = step.exec.scratch().allocate(step.dtype, {d_normed.rows(), r});
    const auto d_output = gradient.in(step, d_normed);
    kernels::linear_backward_weight(step.exec, d_output, t["inner"], grads.gradient(b), {});
    kernels::linear_backward_input(step.exec, d_output, lease.weight(b), d_inner);
    kernels::linear_backward_weight(step.exec, d_inner, t["normed"], grads.gradient(a), {});
    kernels::linear_backward_input(step.exec, d_inner, lease.weight(a), d_normed);
  }
  int a, b;
};

// After this call a model may have branches = "attention,ffn,low_rank".
inline void register_branch() {
  model::register_branch("low_rank", std::make_shared<Kind>(),
                         [](const model::BranchSpec& spec) { return std::make_unique<Branch>(spec); });
}

}  // namespace low_rank
