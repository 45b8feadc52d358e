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

// Elements in copies: narrow states widened, parameters joined from working copy and remainder, or any array (below).
constexpr int64_t row_length = 1024;
template <class Rule> struct UpdatedCopies {
  float gradient[row_length], parameter[row_length];
  float states[places_of_states<UpdateArgs<Rule>::states_of_rule>][row_length];
};

// How the elements of an update are taken.
template <class Rule> struct UpdateWay {
  static constexpr int count = UpdateArgs<Rule>::states_of_rule;
  bool narrow_states, split;
  bool copied = false;  // every array by copies
  explicit UpdateWay(const UpdateArgs<Rule>& a)
      : narrow_states(count > 0 && a.states[0].type == Type::bf16), split(!a.remainder.empty()) {
    const void* arrays[count + 2] = {a.gradient.data, a.parameter.data};  // of elements of 4 bytes
    int n = split ? 1 : 2;
    for (int s = 0; s < count && !narrow_states; ++s) arrays[n++] = a.states[s].data;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < i; ++j) copied = copied || crowd(arrays[i], arrays[j]);
  }
  int64_t at_once() const { return copied ? row_length / 4 : row_length; }

  // Whether walking along both arrays at once is slow. AMD's caches find a line by a hash of its address that leaves
  // out the bits from 28 on. Lines that differ in these alone throw each other out at every access. Copies of some
  // elements of one array after the other are then twice as fast.
  static bool crowd(const void* a, const void* b) {
    constexpr std::uintptr_t hashed = std::uintptr_t{1} << 28, near = 256;
    return (reinterpret_cast<std::uintptr_t>(a) - reinterpret_cast<std::uintptr_t>(b) + near) % hashed < 2 * near;
  }
};

template <class Rule> UpdatedRow<Rule> begin_row(const UpdateArgs<Rule>& a, const UpdateWay<Rule>& way,
                                                 UpdatedCopies<Rule>& copies, int64_t at, int64_t n) {
  UpdatedRow<Rule> row{a.gradient.template ptr<float>() + at, copies.parameter};
  if (way.copied) {
    copy_elements(copies.gradient, row.gradient, n);
    row.gradient = copies.gradient;
  }
  if (way.split) join_row(copies.parameter, static_cast<const std::uint16_t*>(a.working.data), a.remainder, at, n);
  else if (way.copied) copy_elements(copies.parameter, a.parameter.template ptr<float>() + at, n);
  else row.parameter = a.parameter.template ptr<float>() + at;
  for (int s = 0; s < way.count; ++s) {
    row.states[s] = copies.states[s];
    if (way.narrow_states) widen_row(copies.states[s], a.states[s].template ptr<b16>() + at, n);
    else if (way.copied) copy_elements(copies.states[s], a.states[s].template ptr<float>() + at, n);
    else row.states[s] = a.states[s].template ptr<float>() + at;
  }
  return row;
}

// Narrow states are rounded, parameters split and copies taken back when the sequence is done.
template <class Rule> void end_row(const UpdateArgs<Rule>& a, const UpdateWay<Rule>& way, const UpdatedRow<Rule>& row,
                                   int64_t at, int64_t n) {
  for (int s = 0; s < way.count && UpdateArgs<Rule>::writes_states; ++s)
    if (way.narrow_states) narrow_row(a.states[s].template ptr<b16>() + at, row.states[s], n);
    else if (way.copied) copy_elements(a.states[s].template ptr<float>() + at, row.states[s], n);
  if (!UpdateArgs<Rule>::writes_parameter) return;
  if (way.split) return split_row(row.parameter, static_cast<std::uint16_t*>(a.working.data), a.remainder, at, n);
  if (way.copied) copy_elements(a.parameter.template ptr<float>() + at, row.parameter, n);
  if (!a.working.empty())
    with_narrow_type(a.working.type,
                     [&]<class W>(W*) { narrow_row(static_cast<W*>(a.working.data) + at, row.parameter, n); });
}

template <class Rule>
void update_block(const UpdateArgs<Rule>& a, const UpdateWay<Rule>& way, int64_t from, int64_t to) {
  UpdatedCopies<Rule> copies;
  for (int64_t at = from; at < to; at += way.at_once()) {
    const int64_t n = at + way.at_once() < to ? way.at_once() : to - at;
    const auto row = begin_row(a, way, copies, at, n);
    update_elements(a, row, n);
    end_row(a, way, row, at, n);
  }
}

template <class Rule> void update_blocks(const UpdateArgs<Rule>& a) {
  const UpdateWay<Rule> way(a);
  over_blocks_of_marks(a.remainder, a.gradient.rows * a.gradient.cols, a.threads,
                       [&](int64_t from, int64_t to) { update_block(a, way, from, to); });
}

}  // namespace

#define TRAINYARD_UPDATE_VARIANT(name, Args) \
  void name##_cpu(const Args& a) { update_blocks(a); }
TRAINYARD_UPDATE_RULES(TRAINYARD_UPDATE_VARIANT)
#undef TRAINYARD_UPDATE_VARIANT

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
