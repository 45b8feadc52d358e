// Norms: a row is one task; weight gradients are summed by fixed blocks of rows.
#include "kernels/norm/norm_args.h"

#include "kernels/cpu.h"
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
  const G mean =
      centred ? lane_sum<G>(n, [&](int64_t i) { return static_cast<G>(widen(x[i])); }) / static_cast<G>(n) : G(0);
  const G square = lane_sum<G>(n,
                               [&](int64_t i) {
                                 const G d = static_cast<G>(widen(x[i])) - mean;
                                 return d * d;
                               }) /
                   static_cast<G>(n);
  const G rstd = G(1) / sqrt_of(square + static_cast<G>(a.epsilon));
  a.rstd.ptr<G>()[r] = rstd;
  if (!centred) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(&y[i], static_cast<G>(widen(x[i])) * rstd * widen(weight[i]));
    return;
  }
  a.mean.ptr<G>()[r] = mean;
  const T* bias = a.bias.ptr<T>();
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    store(&y[i], (static_cast<G>(widen(x[i])) - mean) * rstd * widen(weight[i]) + widen(bias[i]));
}

// With xh = (x - mean) rstd and gw = dy weight: dx = rstd (gw - mean(gw) - xh mean(gw xh)). RMS norm has no mean(gw)
// term.
template <class T, class G> void backward_row(const NormBackwardArgs& a, int64_t r, G* dweight, G* dbias) {
  const T* x = a.x.row<T>(r);
  const T* dy = a.dy.row<T>(r);
  T* dx = a.dx.row<T>(r);
  const T* weight = a.weight.ptr<T>();
  const int64_t n = a.x.cols;
  const G rstd = a.rstd.ptr<G>()[r];
  const bool centred = !a.mean.empty();
  const G mean = centred ? a.mean.ptr<G>()[r] : G(0);
  const auto hat = [&](int64_t i) { return (static_cast<G>(widen(x[i])) - mean) * rstd; };
  const auto scaled = [&](int64_t i) { return static_cast<G>(widen(dy[i])) * static_cast<G>(widen(weight[i])); };
  const G plain = centred ? lane_sum<G>(n, scaled) / static_cast<G>(n) : G(0);
  const G along = lane_sum<G>(n, [&](int64_t i) { return scaled(i) * hat(i); }) / static_cast<G>(n);
  for (int64_t i = 0; i < n; ++i) dweight[i] += static_cast<G>(widen(dy[i])) * hat(i);
  if (centred)
    for (int64_t i = 0; i < n; ++i) dbias[i] += static_cast<G>(widen(dy[i]));
  if (a.add) {
    for (int64_t i = 0; i < n; ++i)
      store(&dx[i], static_cast<G>(widen(dx[i])) + rstd * (scaled(i) - plain - hat(i) * along));
  } else {
    for (int64_t i = 0; i < n; ++i) store(&dx[i], rstd * (scaled(i) - plain - hat(i) * along));
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
