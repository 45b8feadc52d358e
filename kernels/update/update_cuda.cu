// Applies the sequence of each rule with every operation rounded on its own, so that the bits are the CPU's.
#include "kernels/gpu_entries.h"
#include "kernels/update/remainder_device.h"
#include "kernels/update/rounded_device.h"

namespace trainyard::kernels {
namespace {

// What all elements of an update share.
template <class Rule> struct ElementUpdate {
  const UpdateArgs<Rule>& a;
  const float scale, rate;

  __device__ __forceinline__ explicit ElementUpdate(const UpdateArgs<Rule>& args)
      : a(args), scale(args.numbers != nullptr ? args.numbers->gradient_scale : args.scale),
        rate(args.rate_factor != nullptr ? __fmul_rn(args.learning_rate, *args.rate_factor) : args.learning_rate) {}

  // Updates element `at`, whose states are states[s].v[k], and returns its parameter. Narrow states are widened, and
  // rounded when the sequence is done.
  template <class S, int V> __device__ __forceinline__ float operator()(std::int64_t at, float gradient,
                                                                        float parameter, Vec<S, V>* states,
                                                                        int k) const {
    constexpr int count = UpdateArgs<Rule>::states_of_rule;
    using F = RoundedFloat;
    UpdatedElement<F, count> e;
    e.decay = F(0);
    for (int r = 0; r < a.ranges; ++r)
      if (at >= a.first[r] && at < a.end[r]) e.decay = F(a.weight_decay);
    e.gradient = UpdateArgs<Rule>::scales_gradient ? F(gradient) * F(scale) : F(gradient);
    e.parameter = F(parameter);
#pragma unroll
    for (int s = 0; s < count; ++s) e.states[s] = F(widen(states[s].v[k]));
    e.rate = F(rate);
    a.sequence(e);
#pragma unroll
    for (int s = 0; s < count; ++s) store(&states[s].v[k], e.states[s].v);
    return e.parameter.v;
  }
};

// Each thread updates V neighbouring elements at a time. S is the type of the states, W that of the working copy, where
// there is one.
template <class Rule, class S, class W, int V> __global__ void update_kernel(UpdateArgs<Rule> a) {
  constexpr int count = UpdateArgs<Rule>::states_of_rule;
  auto* parameters = static_cast<float*>(a.parameter.data);
  const auto* gradients = static_cast<const float*>(a.gradient.data);
  auto* working = static_cast<W*>(a.working.data);
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  const ElementUpdate<Rule> updated(a);
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
      p.v[k] = updated(at + k, gradient.v[k], p.v[k], states, k);
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

// The same where parameters are working copies with a remainder, 8 elements a thread.
template <class Rule, class S, bool whole>
__global__ void update_split_kernel(UpdateArgs<Rule> a, std::int64_t n, std::int64_t groups) {
  constexpr int count = UpdateArgs<Rule>::states_of_rule;
  auto* working = static_cast<b16*>(a.working.data);
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  const ElementUpdate<Rule> updated(a);
  TRAINYARD_EACH(group, groups) {
    const auto g = marked_group<whole>(a.remainder, group, n);
    auto master = master_group<whole>(working, a.remainder, group, g);
    Vec<float, 8> gradient;
    get_group<whole>(gradient, static_cast<const float*>(a.gradient.data), g);
    Vec<S, 8> states[places_of_states<count>];
#pragma unroll
    for (int s = 0; s < count; ++s) get_group<whole>(states[s], static_cast<const S*>(a.states[s].data), g);
    over_group<whole>(g, [&](int k) { master.set(k, updated(g.at + k, gradient.v[k], master.master(k), states, k)); });
    if constexpr (UpdateArgs<Rule>::writes_states) {
#pragma unroll
      for (int s = 0; s < count; ++s) put_group<whole>(static_cast<S*>(a.states[s].data), states[s], g);
    }
    if constexpr (UpdateArgs<Rule>::writes_parameter) put_master_group<whole>(working, a.remainder, group, g, master);
  }
}

template <class Rule> const char* launch_split_update(const UpdateArgs<Rule>& a, void* stream) {
  const auto n = a.gradient.rows * a.gradient.cols, groups = groups_of_marks(a.remainder, n);
  bool whole = in_groups_of_marks(a.remainder, a.working.data, n) && in_groups(8, a.gradient);
  for (const auto& state : a.states) whole = whole && in_groups(8, state);
  with_type_of_states(a.states[0].type, [&]<class S>(S*) {
    constexpr auto some = update_split_kernel<Rule, S, false>, all = update_split_kernel<Rule, S, true>;
    const auto kernel = whole ? all : some;
    TRAINYARD_LAUNCH(kernel, false, blocks_for(groups), 256, stream, a, n, groups);
  });
  return launch_failure();
}

template <class Rule> const char* launch_update(const UpdateArgs<Rule>& a, void* stream) {
  if (!a.remainder.empty()) return launch_split_update(a, stream);
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
