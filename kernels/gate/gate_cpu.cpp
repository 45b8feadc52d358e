// The gate: tokens choose in parallel, one pass sorts the choices by expert, and experts give places in parallel.
// Arithmetic is scalar f64, so every instruction-set path and number of threads gives the same bits.
#include "kernels/gate/gate_args.h"

#include "kernels/gate/gate_numbers.h"
#include "kernels/strips_cpu.h"
#include "libtrain/plan/blocks/expert_scratch.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

template <class T> double highest(const T* x, int64_t n) {
  double top = static_cast<double>(x[0]);
  for (int64_t e = 1; e < n; ++e) top = static_cast<double>(x[e]) > top ? static_cast<double>(x[e]) : top;
  return top;
}

// The k experts e with the largest at(e), in descending order; ties go to the lowest. `values` has room for k numbers.
template <class Value>
void choose_largest(int64_t experts, int64_t k, const Value& at, double* values, int32_t* chosen) {
  int64_t found = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const double value = at(e);
    if (found == k && !(value > values[k - 1])) continue;
    int64_t place = found < k ? found++ : k - 1;
    for (; place > 0 && value > values[place - 1]; --place) {
      values[place] = values[place - 1];
      chosen[place] = chosen[place - 1];
    }
    values[place] = value;
    chosen[place] = static_cast<int32_t>(e);
  }
}

// A bit mask: bit g is set if the token may choose experts of group g.
template <class T> uint64_t open_groups(const GateArgs& a, const T* logits) {
  if (a.expert_groups == 1) return 1;
  double values[plan::most_gate_groups];
  int32_t chosen[plan::most_gate_groups];
  choose_largest(
      a.expert_groups, a.top_groups, [&](int64_t g) { return gate_group_rank(a, logits, g); }, values, chosen);
  uint64_t open = 0;
  for (int64_t i = 0; i < a.top_groups; ++i) open |= uint64_t{1} << chosen[i];
  return open;
}

template <class T> void choose(const GateForwardArgs& a, int64_t s, double* values) {
  const T* logits = a.logits.row<T>(s);
  int32_t* chosen = a.to.chosen + s * a.top_k;
  const uint64_t open = open_groups(a, logits);
  const auto noisy = [&](int64_t e) { return gate_within(a, open, e, gate_noisy_rank(a, logits, s, e)); };
  if (!gate_first_is_clean(a)) return choose_largest(a.experts, a.top_k, noisy, values, chosen);
  choose_largest(
      a.experts, 1, [&](int64_t e) { return gate_within(a, open, e, gate_rank(a, logits, e)); }, values, chosen);
  const int64_t first = chosen[0];
  choose_largest(
      a.experts - 1, 1, [&](int64_t e) { return noisy(e < first ? e : e + 1); }, values, chosen + 1);
  chosen[1] += chosen[1] >= first ? 1 : 0;
}

// One block of tokens: the choices, their scores, and the block's contribution to the losses.
template <class T> void choose_block(const GateForwardArgs& a, int64_t block) {
  const int64_t n = a.experts, first = block * plan::gate_block_tokens,
                end = first + plan::gate_block_tokens < a.tokens ? first + plan::gate_block_tokens : a.tokens;
  double* sums = a.block_numbers + block * plan::gate_block_numbers(n, a.top_k);
  double *parts = sums + n + 2, *values = parts + n;
  for (int64_t i = 0; i < n + 2; ++i) sums[i] = 0;
  for (int64_t s = first; s < end; ++s) {
    const T* x = a.logits.row<T>(s);
    const double top = highest(x, n);
    double sum = 0, along = 0;
    for (int64_t e = 0; e < n; ++e) {
      const double below = static_cast<double>(x[e]) - top;
      parts[e] = gate_exp(below);
      sum += parts[e];
      along += parts[e] > 0 ? parts[e] * below : 0;
    }
    const double whole = top + gate_log(sum);
    double share = sum;
    if (a.score == plan::GateScore::sigmoid) {
      share = along = 0;
      for (int64_t e = 0; e < n; ++e) {
        parts[e] = gate_sigmoid(static_cast<double>(x[e]));
        share += parts[e];
        along += parts[e] * gate_log(parts[e]);
      }
    }
    for (int64_t e = 0; e < n; ++e) sums[e] += parts[e] / share;
    sums[n] += whole * whole;
    sums[n + 1] += gate_log(share) - along / share;
    choose<T>(a, s, values);
    const double unit = a.score == plan::GateScore::sigmoid ? 1 : share;
    for (int64_t c = s * a.top_k; c < (s + 1) * a.top_k; ++c)
      static_cast<T*>(a.scores)[c] = static_cast<T>(parts[a.chosen[c]] / unit);
  }
}

// Fills `order`: the choices sorted by class and expert, each run in the order of tokens.
void order_choices(const GateForwardArgs& a) {
  const int64_t slots = gate_classes(a) * a.experts, choices = a.tokens * a.top_k;
  for (int64_t i = 0; i <= slots; ++i) a.ends[i] = 0;
  for (int64_t c = 0; c < choices; ++c) ++a.ends[gate_slot(a, c) + 1];
  for (int64_t i = 0; i < slots; ++i) a.ends[i + 1] += a.ends[i];
  // ends[i] holds where run i begins; each placed choice advances it, until it holds where run i ends.
  for (int64_t c = 0; c < choices; ++c) a.order[a.ends[gate_slot(a, c)]++] = static_cast<int32_t>(c);
}

// Of n keys, those above `key` are kept, and the first `ties` of the keys that equal it.
struct KeyCut {
  uint64_t key;
  int64_t ties;
};
// The cut that keeps `keep` of n keys, 0 < keep < n, found digit by digit from the highest.
KeyCut key_cut(const uint64_t* keys, int64_t n, int64_t keep) {
  uint64_t found = 0, mask = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    int64_t counts[256] = {};
    for (int64_t i = 0; i < n; ++i)
      if ((keys[i] & mask) == found) ++counts[(keys[i] >> shift) & 255];
    uint64_t digit = 255;
    for (; counts[digit] < keep; --digit) keep -= counts[digit];
    found |= digit << shift;
    mask |= uint64_t{255} << shift;
  }
  return {found, keep};
}

template <class T> void give_places(const GateForwardArgs& a, int64_t e) {
  const int64_t first = a.to.groups[2 * e];
  int64_t before = 0;
  for (int64_t slot = e; slot < gate_classes(a) * a.experts; slot += a.experts) {
    const int64_t begin = gate_slot_begin(a, slot), wanted = gate_wanted(a, slot), keep = gate_kept(a, wanted, before);
    KeyCut cut{0, keep};
    const bool in_order = keep == 0 || keep == wanted || a.overflow == plan::Overflow::position;
    if (!in_order) {
      for (int64_t i = 0; i < wanted; ++i) a.order_keys[begin + i] = gate_overflow_key<T>(a, a.order[begin + i], e);
      cut = key_cut(a.order_keys + begin, wanted, keep);
    }
    int64_t row = first + before;
    for (int64_t i = 0; i < wanted; ++i) {
      const int32_t choice = a.order[begin + i];
      const uint64_t key = in_order ? 0 : a.order_keys[begin + i];
      const bool kept = key > cut.key || (key == cut.key && cut.ties-- > 0);
      a.to.rows[choice] = kept ? static_cast<int32_t>(row) : -1;
      if (kept && row < a.source_rows) a.to.sources[row] = choice;
      row += kept ? 1 : 0;
    }
    before += wanted;
  }
}

template <class T> void forward_gate(const GateForwardArgs& a) {
  const int64_t blocks = plan::gate_blocks(a.tokens), width = plan::gate_block_numbers(a.experts, a.top_k);
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (int64_t b = 0; b < blocks; ++b) choose_block<T>(a, b);
  order_choices(a);
  for (int64_t e = 0, row = 0; e < a.experts; row += gate_rows_of(a, e++)) gate_put_group(a, e, row);
  for (int64_t b = 1; b < blocks; ++b)
    for (int64_t i = 0; i < a.experts + 2; ++i) a.block_numbers[i] += a.block_numbers[b * width + i];
  double balance = 0;
  for (int64_t e = 0; e < a.experts; ++e) balance += gate_balance_part(a, e, a.block_numbers[e]);
  gate_put_losses(a, balance, a.block_numbers + a.experts);
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (int64_t r = 0; r < a.source_rows; ++r) a.to.sources[r] = -1;
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (int64_t e = 0; e < a.experts; ++e) give_places<T>(a, e);
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (int64_t s = 0; s < a.tokens; ++s) gate_weigh<T>(a, s);
}

template <class T> void backward_token(const GateBackwardArgs& a, int64_t s) {
  const T* x = a.logits.row<T>(s);
  T* d = a.d_logits.row<T>(s);
  const int64_t n = a.experts;
  const bool sigmoid = a.score == plan::GateScore::sigmoid;
  const double unit = gate_balance_slope(a), top = highest(x, n);
  const auto slope_of = [&](int64_t e) {
    return unit * static_cast<double>(a.loads[n + e]) + gate_score_slope<T>(a, s, e);
  };
  double sum = 0, share = 0, along = 0;
  for (int64_t e = 0; e < n; ++e) {
    const double xe = static_cast<double>(x[e]), part = gate_exp(xe - top), score = sigmoid ? gate_sigmoid(xe) : part;
    sum += part;
    share += score;
    along += score * slope_of(e);
  }
  along /= share;
  const double z = a.z == 0 ? 0 : 2 * a.z * *a.targets * (top + gate_log(sum)) / static_cast<double>(a.tokens) / sum;
  for (int64_t e = 0; e < n; ++e) {
    const double xe = static_cast<double>(x[e]), part = gate_exp(xe - top), score = sigmoid ? gate_sigmoid(xe) : part;
    const double of_share = (slope_of(e) - along) / share;
    d[e] = static_cast<T>(of_share * score * (sigmoid ? 1 - score : 1) + z * part);
  }
  gate_weight_slopes<T>(a, s,
                        [&](int64_t e, double slope) { d[e] = static_cast<T>(static_cast<double>(d[e]) + slope); });
}

template <class T> void jitter_row(const GateJitterArgs& a, int64_t s) {
  constexpr int64_t strip = 64;
  static_assert(strip <= f16_strip);
  const uint64_t index = gate_index(a.keys, s);
  for (int64_t c0 = 0; c0 < a.x.cols; c0 += strip) {
    const int64_t m = a.x.cols - c0 < strip ? a.x.cols - c0 : strip;
    double factors[strip];
#pragma omp simd
    for (int64_t i = 0; i < m; ++i)
      factors[i] = 0.99 + 0.02 * gate_uniform(philox_words(a.keys.seed, a.keys.noise_site,
                                                           index + static_cast<uint64_t>(c0 + i)));
    const StripIn<T> x(a.x.row<T>(s) + c0, m);
    StripOut<T> y(a.y.row<T>(s) + c0, m);
#pragma omp simd
    for (int64_t i = 0; i < m; ++i) y.put(i, static_cast<compute_t<T>>(static_cast<double>(x[i]) * factors[i]));
    y.finish();
  }
}

}  // namespace

void gate_forward_cpu(const GateForwardArgs& a) {
  if (a.logits.type == Type::f64) forward_gate<double>(a);
  else forward_gate<float>(a);
}
void gate_backward_cpu(const GateBackwardArgs& a) {
  const auto all = [&a]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t s = 0; s < a.tokens; ++s) backward_token<T>(a, s);
  };
  if (a.logits.type == Type::f64) all(static_cast<double*>(nullptr));
  else all(static_cast<float*>(nullptr));
}
void gate_jitter_cpu(const GateJitterArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t s = 0; s < a.x.rows; ++s) jitter_row<T>(a, s);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
