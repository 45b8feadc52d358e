// Products over neighbouring weights.
#include "libtrain/model/fused_linear.h"

#include "libtrain/model/shared_sum.h"

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

std::vector<FusedLinear::Span> FusedLinear::spans(const std::function<base::View(int)>& borrowed) const {
  std::vector<Span> out;
  std::int64_t first = 0;
  for (const auto& s : indices_) {
    const Span next{borrowed(s.weight), s.bias >= 0 ? borrowed(s.bias) : base::View{}, first};
    first += next.weight.rows();
    if (!out.empty() && adjoins(out.back().weight, next.weight) && (!next.bias || adjoins(out.back().bias, next.bias)))
      out.back() = {merged(out.back().weight, next.weight), merged(out.back().bias, next.bias), out.back().first};
    else out.push_back(next);
  }
  return out;
}

void FusedLinear::forward(tensor::Exec& exec, const params::Lease& lease, base::View x, base::View y) const {
  for (const auto& s : spans([&](int index) { return lease.weight(index); }))
    kernels::linear_forward(exec, x, s.weight, s.bias, y.columns(s.first, s.weight.rows()));
}

std::vector<kernels::LinearPart> FusedLinear::parts(const params::Lease& lease, base::View dy) const {
  std::vector<kernels::LinearPart> out;
  std::int64_t first = 0;
  for (const auto& s : indices_) {
    const auto weight = lease.weight(s.weight);
    out.push_back({dy.columns(first, weight.rows()), weight});
    first += weight.rows();
  }
  return out;
}

// Ranks exchange partial sums of dx while the weight gradients are computed.
void FusedLinear::backward(Step& step, const params::Lease& lease, const params::Grads& grads,
                           const Backward& of) const {
  SharedInputGradient input(step, parts(lease, of.dy), of.widths, of.dx);
  weight_gradients(step, grads, of.dy, of.x.get());
  input.finish();
}

void FusedLinear::input_gradient(Step& step, const params::Lease& lease, base::View dy, const plan::Widths& widths,
                                 base::View dx) const {
  SharedInputGradient(step, parts(lease, dy), widths, dx).finish();
}

void FusedLinear::weight_gradients(Step& step, const params::Grads& grads, base::View dy, base::View x) const {
  for (const auto& s : spans([&](int index) { return grads.gradient(index); }))
    kernels::linear_backward_weight(step.exec, dy.columns(s.first, s.weight.rows()), x, s.weight, s.bias);
}

}  // namespace trainyard::model
