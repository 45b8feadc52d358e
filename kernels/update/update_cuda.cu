// Applies the sequence of each rule with every operation rounded on its own, so that the bits are the CPU's.
#include "kernels/gpu_entries.h"
#include "kernels/update/rounded_device.h"

namespace trainyard::kernels {
namespace {

// Each thread updates V neighbouring elements at a time. S is the type of the states, W that of the working copy, where
// there is one. Narrow states are widened, and rounded when the sequence is done.
template <class Rule, class S, class W, int V> __global__ void update_kernel(UpdateArgs<Rule> a) {
  constexpr int count = UpdateArgs<Rule>::states_of_rule;
  using F = RoundedFloat;
  auto* parameters = static_cast<float*>(a.parameter.data);
  const auto* gradients = static_cast<const float*>(a.gradient.data);
  auto* working = static_cast<W*>(a.working.data);
  const float scale = a.numbers != nullptr ? a.numbers->gradient_scale : a.scale;
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  const float rate = a.rate_factor != nullptr ? __fmul_rn(a.learning_rate, *a.rate_factor) : a.learning_rate;
  TRAINYARD_EACH(group, a.parameter.rows * a.parameter.cols / V) {
    const std::int64_t at = group * V;
    const auto gradient = vec_at<V>(gradients + at);
    auto p = vec_at<V>(parameters + at);
    Vec<S, V> states[places_of_states<count>];
#pragma unroll
    for (int s = 0; s < count; ++s) states[s] = vec_at<V>(static_cast<const S*>(a.states[s].data) + at);
    Vec<W, V> narrow;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      UpdatedElement<F, count> e;
      e.decay = F(0);
      for (int r = 0; r < a.ranges; ++r)
        if (at + k >= a.first[r] && at + k < a.end[r]) e.decay = F(a.weight_decay);
      e.gradient = UpdateArgs<Rule>::scales_gradient ? F(gradient.v[k]) * F(scale) : F(gradient.v[k]);
      e.parameter = F(p.v[k]);
#pragma unroll
      for (int s = 0; s < count; ++s) e.states[s] = F(widen(states[s].v[k]));
      e.rate = F(rate);
      a.sequence(e);
#pragma unroll
      for (int s = 0; s < count; ++s) store(&states[s].v[k], e.states[s].v);
      p.v[k] = e.parameter.v;
      store(&narrow.v[k], p.v[k]);
    }
    if constexpr (UpdateArgs<Rule>::writes_states) {
#pragma unroll
      for (int s = 0; s < count; ++s) put_vec(static_cast<S*>(a.states[s].data) + at, states[s]);
    }
    if constexpr (UpdateArgs<Rule>::writes_parameter) {
      put_vec(parameters + at, p);
      if (working != nullptr) put_vec(working + at, narrow);
    }
  }
}

template <class Rule> const char* launch_update(const UpdateArgs<Rule>& a, void* stream) {
  bool grouped = in_groups(4, a.parameter, a.gradient, a.working);
  for (const auto& state : a.states) grouped = grouped && in_groups(4, state);
  const auto blocks = blocks_for(a.parameter.rows * a.parameter.cols / (grouped ? 4 : 1));
  with_type_of_states(a.states[0].type, [&]<class S>(S*) {
    with_narrow_type(a.working.type, [&]<class W>(W*) {
      constexpr auto one = update_kernel<Rule, S, W, 1>, many = update_kernel<Rule, S, W, 4>;
      const auto kernel = grouped ? many : one;
      TRAINYARD_LAUNCH(kernel, false, blocks, 256, stream, a);
    });
  });
  return launch_failure();
}

}  // namespace

#define TRAINYARD_UPDATE_ENTRY(name, Args) \
  const char* gpu::name(const Args& a, void* stream) { return launch_update(a, stream); }
TRAINYARD_UPDATE_RULES(TRAINYARD_UPDATE_ENTRY)
#undef TRAINYARD_UPDATE_ENTRY

}  // namespace trainyard::kernels
