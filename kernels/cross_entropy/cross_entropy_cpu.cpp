// One token is one task: maximum, exponentials and their sum for each lane, then the gradient.
#include "kernels/cross_entropy/cross_entropy_args.h"

#include "kernels/lane_order.h"
#include "kernels/strips_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class G> G largest(const G* x, int64_t n) {
  G lane[16];
  for (int l = 0; l < 16; ++l) lane[l] = x[0];
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
  for (; i < n; ++i) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  G best = lane[0];
  for (int l = 1; l < 16; ++l) best = lane[l] > best ? lane[l] : best;
  return best;
}

// tanh with a small relative error: for |x| below 0.7 a quotient of Lambert's continued fraction, which is within 3e-9.
inline float capped_tanh(float x) {
  const float s = x * x;
  const float small = x * (945.0f + s * (105.0f + s)) / (945.0f + s * (420.0f + s * 15.0f));
  const float large = tanh_of(x);
  return s < 0.49f ? small : large;
}
inline double capped_tanh(double x) { return tanh_of(x); }

// c tanh(x / c), and its derivative at x.
template <class G> struct Cap {
  G c, inverse;
  explicit Cap(double softcap) : c(static_cast<G>(softcap)), inverse(G(1) / c) {}
  G value(G x) const { return c * capped_tanh(x * inverse); }
  G slope(G x) const {
    const G t = capped_tanh(x * inverse);
    return G(1) - t * t;
  }
};

template <class G> struct Softmax {
  G top, sum;  // maximum, and sum of exp(x - maximum); a sum of 0 means no columns
  G logits;    // with label smoothing the sum of x, otherwise 0
};

template <class G> Softmax<G> join(const Softmax<G>& a, const Softmax<G>& b) {
  if (b.sum == 0) return a;  // columns that count come first: if b has none, a has some, or both have none
  const G top = b.top > a.top ? b.top : a.top;
  return {top, a.sum * exp_of(a.top - top) + b.sum * exp_of(b.top - top), a.logits + b.logits};
}

// Joins at(0) ... at(n - 1) in the order of lanes.
template <class G, class Function> Softmax<G> joined(int64_t n, const Function& at) {
  Softmax<G> waiting[lane_levels], all{};
  for (int64_t i = 0; i < n; ++i) {
    all = at(i);
    const auto step = lane_step(i, n);
    for (int k = 0; k < step.joins; ++k) all = join(waiting[k], all);
    waiting[step.place] = all;
  }
  return all;
}

template <class G> Softmax<G> lane_of(const CrossEntropyArgs& a, const G* logits, int64_t lane) {
  const int64_t width = a.logits.cols / a.lanes, first = lane * width,
                n = a.columns - first < width ? a.columns - first : width;
  if (n <= 0) return {};
  const G* x = logits + first;
  if (a.softcap > 0) {
    const Cap<G> cap(a.softcap);
    const G top = cap.value(largest(x, n));
    return {top, lane_sum<G>(n, [&](int64_t i) { return exp_of(cap.value(x[i]) - top); }),
            a.smooth ? lane_sum<G>(n, [&](int64_t i) { return cap.value(x[i]); }) : G(0)};
  }
  const G top = largest(x, n);
  return {top, lane_sum<G>(n, [&](int64_t i) { return exp_of(x[i] - top); }),
          a.smooth ? lane_sum<G>(n, [&](int64_t i) { return x[i]; }) : G(0)};
}

// The logit that the softmax has.
template <class G> G seen(const CrossEntropyArgs& a, G logit) {
  return a.softcap > 0 ? Cap<G>(a.softcap).value(logit) : logit;
}

// The logit of the target if it is one of this rank's columns [first, end), otherwise 0.
template <class G> G target_of(const CrossEntropyArgs& a, const G* logits, int64_t r, int64_t first, int64_t end) {
  const int64_t target = a.targets[r] - a.first_column;
  return target >= first && target < end ? seen(a, logits[target]) : G(0);
}

template <class G> void statistics(const CrossEntropyArgs& a, int64_t r) {
  const G* logits = a.logits.row<G>(r);
  const int64_t each = a.numbers, pieces = a.statistics.rows / each, lanes = a.lanes / pieces,
                width = a.logits.cols / pieces;
  for (int64_t p = 0; p < pieces; ++p) {
    Softmax<G> of{};
    G target = 0;
    if (a.weights[r] != 0) {
      of = joined<G>(lanes, [&](int64_t l) { return lane_of(a, logits, p * lanes + l); });
      target = target_of(a, logits, r, p * width, (p + 1) * width);
    }
    a.statistics.row<G>(each * p)[r] = of.top;
    a.statistics.row<G>(each * p + 1)[r] = of.sum;
    a.statistics.row<G>(each * p + 2)[r] = target;
    if (a.smooth) a.statistics.row<G>(each * p + 3)[r] = of.logits;
  }
}

// What the softmax is compared with: the target's logit, or the mean of logits by their shares.
template <class G> double expected_logit(const CrossEntropyArgs& a, const Softmax<G>& all, G target_logit) {
  const auto target = static_cast<double>(target_logit);
  return a.smooth ? a.target_share * target + a.column_share * static_cast<double>(all.logits) : target;
}

template <class T, class G> void finish(const CrossEntropyArgs& a, int64_t r, const Softmax<G>& all, G target_logit) {
  const G* logits = a.logits.row<G>(r);
  T* out = a.dlogits.empty() ? nullptr : a.dlogits.row<T>(r);
  const int64_t n = a.columns, target = a.targets[r] - a.first_column;
  const bool capped = a.softcap > 0, here = target >= 0 && target < n;
  const Cap<G> cap(capped ? a.softcap : 1);
  const G share = static_cast<G>(a.column_share), share_of_target = static_cast<G>(a.target_share + a.column_share);
  const G top = all.top, scale = G(1) / all.sum, of_loss = static_cast<G>(a.loss_scale),
          of_target = capped && here ? cap.slope(logits[target]) * of_loss : of_loss;
  a.losses[r] =
      __builtin_log(static_cast<double>(all.sum)) + (static_cast<double>(top) - expected_logit(a, all, target_logit));
  if (!out) return;
  over_strips<T>(n, [&](int64_t c0, int64_t m) {
    StripOut<T> strip_out(out + c0, m);
    const G* in = logits + c0;
    if (capped) {
#pragma omp simd
      for (int64_t c = 0; c < m; ++c) {
        const G t = capped_tanh(in[c] * cap.inverse);
        strip_out.put(
            c, static_cast<compute_t<T>>((exp_of(cap.c * t - top) * scale - share) * ((G(1) - t * t) * of_loss)));
      }
    } else {
#pragma omp simd
      for (int64_t c = 0; c < m; ++c)
        strip_out.put(c, static_cast<compute_t<T>>((exp_of(in[c] - top) * scale - share) * of_loss));
    }
    strip_out.finish();
  });
  for (int64_t c = n; c < a.dlogits.cols; ++c) store(&out[c], static_cast<compute_t<T>>(0));
  if (here)
    store(&out[target], static_cast<compute_t<T>>((exp_of(target_logit - top) * scale - share_of_target) * of_target));
}

template <class G> void cap_row(const CrossEntropyArgs& a, int64_t r) {
  const Cap<G> cap(a.softcap);
  map_row(
      a.logits.cols, a.dlogits.row<G>(r), [&](G x) { return cap.value(x); }, a.logits.row<G>(r));
}

template <class T, class G> void token(const CrossEntropyArgs& a, int64_t r) {
  if (a.step == CrossEntropyStep::cap) return cap_row<G>(a, r);
  if (a.step == CrossEntropyStep::statistics) return statistics<G>(a, r);
  if (a.weights[r] == 0) {
    a.losses[r] = 0;
    if (!a.dlogits.empty())
      for (int64_t c = 0; c < a.dlogits.cols; ++c) store(&a.dlogits.row<T>(r)[c], static_cast<compute_t<T>>(0));
    return;
  }
  if (a.step == CrossEntropyStep::both) {
    const G* logits = a.logits.row<G>(r);
    return finish<T>(a, r, joined<G>(a.lanes, [&](int64_t l) { return lane_of(a, logits, l); }),
                     seen(a, logits[a.targets[r]]));
  }
  const int64_t each = a.numbers, pieces = a.all_statistics.rows / each;
  const auto all = joined<G>(pieces, [&](int64_t p) {
    return Softmax<G>{a.all_statistics.row<G>(each * p)[r], a.all_statistics.row<G>(each * p + 1)[r],
                      a.smooth ? a.all_statistics.row<G>(each * p + 3)[r] : G(0)};
  });
  G target = a.all_statistics.row<G>(2)[r];  // at most one piece has the target; the others are 0
  for (int64_t p = 1; p < pieces; ++p) target += a.all_statistics.row<G>(each * p + 2)[r];
  finish<T>(a, r, all, target);
}

}  // namespace

void cross_entropy_cpu(const CrossEntropyArgs& a) {
  with_type(a.dlogits.empty() ? a.logits.type : a.dlogits.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t r = 0; r < a.logits.rows; ++r) token<T, compute_t<T>>(a, r);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
