// Applies the sequence of each rule, element by element. Square root and division are correctly rounded on every path.
#include "kernels/update/update_args.h"

#include "kernels/update/remainder_cpu.h"
#include "kernels/update/rounded_cpu.h"
#include "kernels/vec_cpu.h"

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

// Whether accesses to both by turns are slow. AMD's nearest cache finds a line by a hash of its address without the
// bits above 27. Lines that differ in these alone throw each other out at every access.
inline bool crowd(const float* a, const float* b) {
  constexpr std::uintptr_t hashed = std::uintptr_t{1} << 28, near = 256;
  return (reinterpret_cast<std::uintptr_t>(a) - reinterpret_cast<std::uintptr_t>(b) + near) % hashed < 2 * near;
}
template <class Rule> bool crowded(const UpdatedRow<Rule>& row) {
  constexpr int count = UpdateArgs<Rule>::states_of_rule;
  bool any = crowd(row.gradient, row.parameter);
  for (int s = 0; s < count; ++s) {
    any = any || crowd(row.states[s], row.gradient) || crowd(row.states[s], row.parameter);
    for (int other = 0; other < s; ++other) any = any || crowd(row.states[s], row.states[other]);
  }
  return any;
}

// Elements of one array that are taken before those of the next where arrays crowd.
constexpr int group_length = 128;
[[gnu::always_inline]] inline void copy_group(float* to, const float* from) {
#pragma GCC unroll 4
  for (int k = 0; k < group_length; k += lanes) put(to + k, load(from + k));
}
template <class Rule>
[[gnu::always_inline]] inline void update_group(const UpdateArgs<Rule>& a, const UpdatedRow<Rule>& row, int64_t at) {
  constexpr int count = UpdateArgs<Rule>::states_of_rule;
  float gradient[group_length], p[group_length], groups[places_of_states<count>][group_length];
  float* states[places_of_states<count>] = {};
  copy_group(gradient, row.gradient + at), copy_group(p, row.parameter + at);
  for (int s = 0; s < count; ++s) copy_group(states[s] = groups[s], row.states[s] + at);
#pragma omp simd
  for (int k = 0; k < group_length; ++k) update_element(a, gradient, p, states, k);
  if constexpr (UpdateArgs<Rule>::writes_states)
    for (int s = 0; s < count; ++s) copy_group(row.states[s] + at, groups[s]);
  if constexpr (UpdateArgs<Rule>::writes_parameter) copy_group(row.parameter + at, p);
}

template <class Rule> void update_elements(const UpdateArgs<Rule>& all, const UpdatedRow<Rule>& row, int64_t n) {
  const auto a = all;
  const auto of = row;
  float* __restrict p = of.parameter;
  const float* __restrict gradient = of.gradient;
  int64_t done = 0;
  if (crowded(of))
    for (; done + group_length <= n; done += group_length) update_group(a, of, done);
#pragma omp simd
  for (int64_t i = done; i < n; ++i) update_element(a, gradient, p, of.states, i);
}

// Rows that fit the nearest cache: what is made of a parameter's new value finds it there. Narrow states are widened,
// and a parameter with a remainder is joined from both of its parts.
constexpr int64_t row_length = 1024;
template <class Rule> struct WideRow {
  static constexpr int count = UpdateArgs<Rule>::states_of_rule;
  float parameter[row_length], states[places_of_states<count>][row_length];

  static bool has_use(const UpdateArgs<Rule>& a) { return narrow(a) || !a.working.empty(); }
  UpdatedRow<Rule> begin(const UpdateArgs<Rule>& a, int64_t at, int64_t n) {
    UpdatedRow<Rule> row{a.gradient.template ptr<float>() + at, parameter};
    if (a.remainder.empty()) row.parameter = a.parameter.template ptr<float>() + at;
    else join_row(parameter, static_cast<const std::uint16_t*>(a.working.data), a.remainder, at, n);
    for (int s = 0; s < count; ++s) {
      if (narrow(a)) widen_row(row.states[s] = states[s], a.states[s].template ptr<b16>() + at, n);
      else row.states[s] = a.states[s].template ptr<float>() + at;
    }
    return row;
  }

  // Rounds and splits when the sequence is done.
  static void end(const UpdateArgs<Rule>& a, const UpdatedRow<Rule>& row, int64_t at, int64_t n) {
    if (UpdateArgs<Rule>::writes_states && narrow(a))
      for (int s = 0; s < count; ++s) narrow_row(a.states[s].template ptr<b16>() + at, row.states[s], n);
    if (!UpdateArgs<Rule>::writes_parameter || a.working.empty()) return;
    if (!a.remainder.empty())
      return split_row(row.parameter, static_cast<std::uint16_t*>(a.working.data), a.remainder, at, n);
    with_narrow_type(a.working.type,
                     [&]<class W>(W*) { narrow_row(static_cast<W*>(a.working.data) + at, row.parameter, n); });
  }

 private:
  static bool narrow(const UpdateArgs<Rule>& a) { return count > 0 && a.states[0].type == Type::bf16; }
};

template <class Rule> void update_block(const UpdateArgs<Rule>& a, int64_t from, int64_t to) {
  WideRow<Rule> wide;
  const int64_t at_once = wide.has_use(a) ? row_length : to - from;
  for (int64_t at = from; at < to; at += at_once) {
    const int64_t n = at + at_once < to ? at_once : to - at;
    const auto row = wide.begin(a, at, n);
    update_elements(a, row, n);
    wide.end(a, row, at, n);
  }
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
