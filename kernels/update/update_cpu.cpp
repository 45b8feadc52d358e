// Applies the sequence of each rule, element by element. Square root and division are correctly rounded on every path.
#include "kernels/update/update_args.h"

#include "kernels/update/rounded_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

// A function of its own, so that the element of each lane stays in registers. States of element i are states[s][i -
// first].
template <class Rule>
[[gnu::always_inline]] inline void update_element(const UpdateArgs<Rule>& a, const float* gradient, float* p,
                                                  float* const* states, int64_t i, int64_t first) {
  constexpr int count = UpdateArgs<Rule>::states_of_rule;
  using F = RoundedFloat;
  UpdatedElement<F, count> e;
  e.gradient = UpdateArgs<Rule>::scales_gradient ? F(gradient[i]) * F(a.scale) : F(gradient[i]);
  e.parameter = F(p[i]);
  for (int s = 0; s < count; ++s) e.states[s] = F(states[s][i - first]);
  e.rate = F(a.learning_rate);
  e.decay = F(a.weight_decay);
  a.sequence(e);
  if constexpr (UpdateArgs<Rule>::writes_states)
    for (int s = 0; s < count; ++s) states[s][i - first] = e.states[s].v;
  if constexpr (UpdateArgs<Rule>::writes_parameter) p[i] = e.parameter.v;
}

template <class Rule>
void update_elements(const UpdateArgs<Rule>& all, float* const* states, int64_t first, int64_t from, int64_t to) {
  const auto a = all;
  float* __restrict p = a.parameter.template ptr<float>();
  const float* __restrict gradient = a.gradient.template ptr<float>();
#pragma omp simd
  for (int64_t i = from; i < to; ++i) update_element(a, gradient, p, states, i, first);
}

// Narrow states are widened, and rounded when the sequence is done.
template <class Rule> void update_with_narrow_states(const UpdateArgs<Rule>& a, int64_t from, int64_t to) {
  constexpr int count = UpdateArgs<Rule>::states_of_rule;
  constexpr int64_t at_once = 1024;
  float wide[count][at_once];
  float* states[count];
  for (int s = 0; s < count; ++s) states[s] = wide[s];
  for (int64_t at = from; at < to; at += at_once) {
    const int64_t end = at + at_once < to ? at + at_once : to;
    for (int s = 0; s < count; ++s) widen_row(wide[s], a.states[s].template ptr<b16>() + at, end - at);
    update_elements(a, states, at, at, end);
    if constexpr (UpdateArgs<Rule>::writes_states)
      for (int s = 0; s < count; ++s) narrow_row(a.states[s].template ptr<b16>() + at, wide[s], end - at);
  }
}

template <class Rule> void update_with_states(const UpdateArgs<Rule>& a, int64_t from, int64_t to) {
  if constexpr (UpdateArgs<Rule>::states_of_rule == 0) return update_elements(a, nullptr, 0, from, to);
  else if (a.states[0].type == Type::bf16) return update_with_narrow_states(a, from, to);
  else {
    float* states[UpdateArgs<Rule>::states_of_rule];
    for (int s = 0; s < UpdateArgs<Rule>::states_of_rule; ++s) states[s] = a.states[s].template ptr<float>();
    update_elements(a, states, 0, from, to);
  }
}

template <class Rule> void update_block(const UpdateArgs<Rule>& a, int64_t from, int64_t to) {
  update_with_states(a, from, to);
  if (a.working.empty() || !UpdateArgs<Rule>::writes_parameter) return;
  const float* p = a.parameter.template ptr<float>();
  with_narrow_type(a.working.type,
                   [&]<class W>(W*) { narrow_row(static_cast<W*>(a.working.data) + from, p + from, to - from); });
}

template <class Rule> void update_blocks(const UpdateArgs<Rule>& a) {
  constexpr int64_t block = 8192;
  const int64_t n = a.parameter.rows * a.parameter.cols, blocks = (n + block - 1) / block;
#pragma omp parallel for num_threads(a.threads) schedule(static) if (blocks > 2)
  for (int64_t b = 0; b < blocks; ++b) update_block(a, b * block, (b + 1) * block < n ? (b + 1) * block : n);
}

}  // namespace

#define TRAINYARD_UPDATE_VARIANT(name, Args) \
  void name##_cpu(const Args& a) { update_blocks(a); }
TRAINYARD_UPDATE_RULES(TRAINYARD_UPDATE_VARIANT)
#undef TRAINYARD_UPDATE_VARIANT

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
