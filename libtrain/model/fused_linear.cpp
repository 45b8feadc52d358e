// Products over neighbouring weights.
#include "libtrain/model/fused_linear.h"

#include "kernels/cast/cast.h"
#include "kernels/linear/linear.h"

namespace trainyard::model {

namespace {

bool adjoins(const base::View& a, const base::View& b) {
  return a.dense() && b.dense() && static_cast<char*>(a.data) + a.bytes() == b.data;
}

base::View merged(const base::View& a, const base::View& b) {
  if (!a) return a;
  return a.dims == 1 ? base::View(a.data, a.dtype, {a.cols() + b.cols()}, a.device)
                     : base::View(a.data, a.dtype, {a.rows() + b.rows(), a.cols()}, a.device);
}

}  // namespace

std::vector<FusedLinear::Span> FusedLinear::spans(const std::function<base::View(int)>& borrowed, Look look) const {
  std::vector<Span> out;
  std::int64_t first = 0;
  for (const auto& s : indices_) {
    const Span next{borrowed(s.weight),
                    look == Look::weights_and_biases && s.bias >= 0 ? borrowed(s.bias) : base::View{}, first};
    first += next.weight.rows();
    if (!out.empty() && adjoins(out.back().weight, next.weight) && (!next.bias || adjoins(out.back().bias, next.bias)))
      out.back() = {merged(out.back().weight, next.weight), merged(out.back().bias, next.bias), out.back().first};
    else out.push_back(next);
  }
  return out;
}

void FusedLinear::forward(tensor::Exec& exec, const params::Lease& lease, base::View x, base::View y) const {
  for (const auto& s : spans([&](int index) { return lease.weight(index); }, Look::weights_and_biases))
    kernels::linear_forward(exec, x, s.weight, s.bias, y.columns(s.first, s.weight.rows()));
}

void FusedLinear::backward_input(tensor::Exec& exec, const params::Lease& lease, base::View dy, base::View dx) const {
  const auto all = spans([&](int index) { return lease.weight(index); }, Look::weights);
  tensor::ArenaScope scope(exec.scratch());
  const bool wide = all.size() > 1 && dx.dtype == base::DType::bf16;
  const auto sum = wide ? exec.scratch().allocate(base::DType::f32, {dx.rows(), dx.cols()}) : dx;
  for (const auto& s : all) {
    const auto part = dy.columns(s.first, s.weight.rows());
    if (s.first == 0) kernels::linear_backward_input(exec, part, s.weight, sum);
    else kernels::linear_backward_input_add(exec, part, s.weight, sum);
  }
  if (wide) kernels::cast(exec, sum, dx);
}

void FusedLinear::backward_weight(tensor::Exec& exec, const params::Grads& grads, base::View dy, base::View x) const {
  for (const auto& s : spans([&](int index) { return grads.gradient(index); }, Look::weights_and_biases))
    kernels::linear_backward_weight(exec, dy.columns(s.first, s.weight.rows()), x, s.weight, s.bias);
}

}  // namespace trainyard::model
