// Applies the sequence of each rule, element by element. Square root and division are correctly rounded on every path.
#include "kernels/update/update_args.h"

#include "kernels/update/remainder_cpu.h"
#include "kernels/update/rounded_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

// Where the elements of one pass are: states[s][0] is of the element of gradient[0] and parameter[0].
template <class Rule> struct UpdatedRow {
  const float* gradient;
  float* parameter;
  float* states[places_of_states<UpdateArgs<Rule>::states_of_rule>] = {};
};

// A function of its own, so that the element of each lane stays in registers.
template <class Rule> [[gnu::always_inline]] inline void update_element(const UpdateArgs<Rule>& a,
                                                                        const float* gradient, float* p,
                                                                        float* const* states, int64_t i) {
  constexpr int count = UpdateArgs<Rule>::states_of_rule;
  using F = RoundedFloat;
  UpdatedElement<F, count> e;
  e.gradient = UpdateArgs<Rule>::scales_gradient ? F(gradient[i]) * F(a.scale) : F(gradient[i]);
  e.parameter = F(p[i]);
  for (int s = 0; s < count; ++s) e.states[s] = F(states[s][i]);
  e.rate = F(a.learning_rate);
  e.decay = F(a.weight_decay);
  a.sequence(e);
  if constexpr (UpdateArgs<Rule>::writes_states)
    for (int s = 0; s < count; ++s) states[s][i] = e.states[s].v;
  if constexpr (UpdateArgs<Rule>::writes_parameter) p[i] = e.parameter.v;
}

template <class Rule> void update_elements(const UpdateArgs<Rule>& all, const UpdatedRow<Rule>& row, int64_t n) {
  const auto a = all;
  const auto of = row;
  float* __restrict p = of.parameter;
  const float* __restrict gradient = of.gradient;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) update_element(a, gradient, p, of.states, i);
}

// Narrow states are widened, and rounded when the sequence is done. A parameter with a remainder is joined from both of
// its parts, and split when the sequence is done.
template <class Rule, bool narrow_states, bool split>
void update_by_copies(const UpdateArgs<Rule>& a, int64_t from, int64_t to) {
  constexpr int count = UpdateArgs<Rule>::states_of_rule;
  constexpr int64_t at_once = 1024;
  float wide[narrow_states ? count : 1][narrow_states ? at_once : 1], joined[split ? at_once : 1];
  auto* working = static_cast<std::uint16_t*>(a.working.data);
  for (int64_t at = from; at < to; at += at_once) {
    const int64_t n = at + at_once < to ? at_once : to - at;
    UpdatedRow<Rule> row{a.gradient.template ptr<float>() + at,
                         split ? joined : a.parameter.template ptr<float>() + at};
    for (int s = 0; s < count; ++s) {
      if constexpr (narrow_states) widen_row(row.states[s] = wide[s], a.states[s].template ptr<b16>() + at, n);
      else row.states[s] = a.states[s].template ptr<float>() + at;
    }
    if constexpr (split) join_row(joined, working, a.remainder, at, n);
    update_elements(a, row, n);
    if constexpr (narrow_states && UpdateArgs<Rule>::writes_states)
      for (int s = 0; s < count; ++s) narrow_row(a.states[s].template ptr<b16>() + at, wide[s], n);
    if constexpr (split && UpdateArgs<Rule>::writes_parameter) split_row(joined, working, a.remainder, at, n);
  }
}

template <class Rule> void update_in_place(const UpdateArgs<Rule>& a, int64_t from, int64_t to) {
  UpdatedRow<Rule> row{a.gradient.template ptr<float>() + from, a.parameter.template ptr<float>() + from};
  for (int s = 0; s < UpdateArgs<Rule>::states_of_rule; ++s) row.states[s] = a.states[s].template ptr<float>() + from;
  update_elements(a, row, to - from);
}

template <class Rule> void update_block(const UpdateArgs<Rule>& a, int64_t from, int64_t to) {
  bool narrow_states = false;
  if constexpr (UpdateArgs<Rule>::states_of_rule > 0) {
    narrow_states = a.states[0].type == Type::bf16;
    if (narrow_states && a.remainder.empty()) update_by_copies<Rule, true, false>(a, from, to);
    else if (narrow_states) update_by_copies<Rule, true, true>(a, from, to);
  }
  if (!narrow_states && a.remainder.empty()) update_in_place(a, from, to);
  else if (!narrow_states) update_by_copies<Rule, false, true>(a, from, to);
  if (a.working.empty() || !a.remainder.empty() || !UpdateArgs<Rule>::writes_parameter) return;
  const float* p = a.parameter.template ptr<float>();
  with_narrow_type(a.working.type,
                   [&]<class W>(W*) { narrow_row(static_cast<W*>(a.working.data) + from, p + from, to - from); });
}

template <class Rule> void update_blocks(const UpdateArgs<Rule>& a) {
  over_blocks_of_marks(a.remainder, a.gradient.rows * a.gradient.cols, a.threads,
                       [&](int64_t from, int64_t to) { update_block(a, from, to); });
}

}  // namespace

#define TRAINYARD_UPDATE_VARIANT(name, Args) \
  void name##_cpu(const Args& a) { update_blocks(a); }
TRAINYARD_UPDATE_RULES(TRAINYARD_UPDATE_VARIANT)
#undef TRAINYARD_UPDATE_VARIANT

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
