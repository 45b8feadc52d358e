// The ordered reduction in blocks that stay in the first-level cache.
#include "kernels/ordered_sum/ordered_sum_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class T> const T* piece(const OrderedSumArgs& a, int64_t p) {
  return a.rows != nullptr ? static_cast<const T*>(a.rows[p]) : a.pieces.row<T>(p);
}

template <class T> void ordered_sum_block(const OrderedSumArgs& a, int64_t from, int64_t to) {
  T* sum = static_cast<T*>(a.sum.data);
  constexpr int64_t width = 512;
  for (int64_t at = from; at < to; at += width) {
    const int64_t n = to - at < width ? to - at : width;
    T between[width];  // intermediate sums stay in the cache; only the last addition writes to `sum`
    const T* so_far = a.next ? sum + at : piece<T>(a, 0) + at;
    const int64_t added = a.next ? 0 : 1, all = a.pieces.rows;
    if (added == all)
      for (int64_t i = 0; i < n; ++i) sum[at + i] = so_far[i];
    for (int64_t p = added; p < all; ++p) {
      const T* in = piece<T>(a, p) + at;
      T* out = p + 1 < all ? between : sum + at;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = so_far[i] + in[i];
      so_far = between;
    }
  }
}

template <class T> void ordered_sum_all(const OrderedSumArgs& a) {
  constexpr int64_t block = 16384;
  const int64_t n = a.pieces.cols, blocks = (n + block - 1) / block;
#pragma omp parallel for num_threads(a.threads) schedule(static) if (blocks > 1)
  for (int64_t b = 0; b < blocks; ++b) ordered_sum_block<T>(a, b * block, (b + 1) * block < n ? (b + 1) * block : n);
}

}  // namespace

void ordered_sum_cpu(const OrderedSumArgs& a) {
  if (a.sum.type == Type::f64) ordered_sum_all<double>(a);
  else ordered_sum_all<float>(a);
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
