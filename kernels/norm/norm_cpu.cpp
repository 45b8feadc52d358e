// Norms: a row is one task; weight gradients are summed by fixed blocks of rows.
#include "kernels/norm/norm_args.h"

#include "kernels/strips_cpu.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class T, class G> void forward_row(const NormForwardArgs& a, int64_t r) {
  const T* x = a.x.row<T>(r);
  const T* weight = a.weight.ptr<T>();
  T* y = a.y.row<T>(r);
  const int64_t n = a.x.cols;
  const bool centred = !a.mean.empty();
  const G offset = static_cast<G>(a.offset);
  G mean = 0;
  if (centred) {
    LaneSum<G> sum;
    over_strips<T>(n, [&](int64_t c0, int64_t m) {
      const StripIn<T> v(x + c0, m);
      sum.add(m, [&](int64_t i) { return v[i]; });
    });
    mean = sum.total() / static_cast<G>(n);
  }
  LaneSum<G> squares;
  over_strips<T>(n, [&](int64_t c0, int64_t m) {
    const StripIn<T> v(x + c0, m);
    squares.add(m, [&](int64_t i) {
      const G d = v[i] - mean;
      return d * d;
    });
  });
  const G rstd = G(1) / sqrt_of(squares.total() / static_cast<G>(n) + static_cast<G>(a.epsilon));
  a.rstd.ptr<G>()[r] = rstd;
  if (!centred) {
    return map_row(
        n, y, [&](G v, G w) { return v * rstd * (w + offset); }, x, weight);
  }
  a.mean.ptr<G>()[r] = mean;
  map_row(
      n, y, [&](G v, G w, G b) { return (v - mean) * rstd * (w + offset) + b; }, x, weight, a.bias.ptr<T>());
}

// With xh = (x - mean) rstd and gw = dy (weight + offset): dx = rstd (gw - mean(gw) - xh mean(gw xh)). RMS norm has no
// mean(gw) term.
template <class T, class G> void backward_row(const NormBackwardArgs& a, int64_t r, G* dweight, G* dbias) {
  const T* x = a.x.row<T>(r);
  const T* dy = a.dy.row<T>(r);
  T* dx = a.dx.row<T>(r);
  const T* weight = a.weight.ptr<T>();
  const int64_t n = a.x.cols;
  const G rstd = a.rstd.ptr<G>()[r], offset = static_cast<G>(a.offset);
  const bool centred = !a.mean.empty();
  const G mean = centred ? a.mean.ptr<G>()[r] : G(0);
  LaneSum<G> plain_sum, along_sum;
  over_strips<T>(n, [&](int64_t c0, int64_t m) {
    const StripIn<T> v(x + c0, m), d(dy + c0, m), w(weight + c0, m);
    const auto hat = [&](int64_t i) { return (v[i] - mean) * rstd; };
    if (centred) plain_sum.add(m, [&](int64_t i) { return d[i] * (w[i] + offset); });
    along_sum.add(m, [&](int64_t i) { return d[i] * (w[i] + offset) * hat(i); });
    G *const to_weight = dweight + c0, *const to_bias = dbias + c0;
    for (int64_t i = 0; i < m; ++i) to_weight[i] += d[i] * hat(i);
    if (centred)
      for (int64_t i = 0; i < m; ++i) to_bias[i] += d[i];
  });
  const G plain = centred ? plain_sum.total() / static_cast<G>(n) : G(0);
  const G along = along_sum.total() / static_cast<G>(n);
  const auto slope = [&](G d, G v, G w) { return rstd * (d * (w + offset) - plain - (v - mean) * rstd * along); };
  if (a.add) {
    map_row(
        n, dx, [&](G so_far, G d, G v, G w) { return so_far + slope(d, v, w); }, dx, dy, x, weight);
  } else {
    map_row(n, dx, slope, dy, x, weight);
  }
}

template <class T, class G> void backward(const NormBackwardArgs& a) {
  constexpr auto rows = plan::column_sum_rows;
  const int64_t blocks = a.partials.rows / 2, n = a.x.cols;
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (int64_t b = 0; b < blocks; ++b) {
    G* dweight = a.partials.row<G>(b);
    G* dbias = a.partials.row<G>(blocks + b);
    for (int64_t i = 0; i < n; ++i) dweight[i] = dbias[i] = 0;
    const int64_t end = (b + 1) * rows < a.x.rows ? (b + 1) * rows : a.x.rows;
    for (int64_t r = b * rows; r < end; ++r) backward_row<T, G>(a, r, dweight, dbias);
  }
}

// Adds the blocks of all ranks, rank by rank. `half` is 0 for weights and 1 for biases.
template <class G> void add_blocks(const NormPartialSumArgs& a, int64_t half, G* out) {
  const int64_t blocks = a.partials.rows / (2 * a.ranks), n = a.partials.cols;
  for (int64_t rank = 0; rank < a.ranks; ++rank)
    for (int64_t b = 0; b < blocks; ++b) {
      const G* in = a.partials.row<G>((2 * rank + half) * blocks + b);
      if (rank + b == 0) {
        for (int64_t i = 0; i < n; ++i) out[i] = in[i];
      } else {
        for (int64_t i = 0; i < n; ++i) out[i] += in[i];
      }
    }
}

}  // namespace

void norm_forward_cpu(const NormForwardArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t r = 0; r < a.x.rows; ++r) forward_row<T, compute_t<T>>(a, r);
  });
}
void norm_backward_cpu(const NormBackwardArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) { backward<T, compute_t<T>>(a); });
}
void norm_partial_sum_cpu(const NormPartialSumArgs& a) {
  with_type(a.partials.type, [&]<class G>(G*) {
    if constexpr (sizeof(G) >= sizeof(float)) {
      add_blocks<G>(a, 0, a.dweight.ptr<G>());
      if (!a.dbias.empty()) add_blocks<G>(a, 1, a.dbias.ptr<G>());
    }
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
