// Lookup row by row. The gradient goes by column strips, so that one thread adds to each element in token order.
#include "kernels/embedding/embedding_args.h"

#include "kernels/strips_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

// The token's row in this rank's table; negative if this rank does not hold it.
template <class Args> int64_t row_of(const Args& a, int64_t r) {
  const int64_t row = a.tokens[r] - a.first_row;
  return row < a.table.rows ? row : -1;
}

template <class T> void forward(const EmbeddingArgs& a) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (int64_t r = 0; r < a.rows.rows; ++r) {
    T* out = a.rows.row<T>(r);
    const T* token = out;
    if (a.tokens != nullptr) {
      const int64_t row = row_of(a, r);
      if (row < 0) {
        set_zero(out, a.rows.cols);
        continue;
      }
      token = a.table.row<T>(row);
    }
    using F = compute_t<T>;
    if (const F scale = static_cast<F>(a.scale); scale != F(1)) {
      map_row(
          a.rows.cols, out, [scale](F x) { return x * scale; }, token);
      token = out;
    }
    if (a.position_table.empty()) {
      for (int64_t c = 0; c < a.rows.cols && token != out; ++c) out[c] = token[c];
    } else {
      const T* position = a.position_table.row<T>(a.positions[r]);
      map_row(
          a.rows.cols, out, [](F x, F y) { return x + y; }, token, position);
    }
  }
}

template <class T, class G> void backward(const EmbeddingBackwardArgs& a) {
  constexpr int64_t strip = 64;
  static_assert(strip <= f16_strip);
  const int64_t strips = (a.table.cols + strip - 1) / strip;
  const G scale = static_cast<G>(a.scale);
#pragma omp parallel num_threads(a.threads)
  {
#pragma omp for schedule(static)
    for (int64_t r = 0; r < a.table.rows; ++r) set_zero(a.table.row<G>(r), a.table.cols);
#pragma omp for schedule(static)
    for (int64_t s = 0; s < strips; ++s) {
      const int64_t c0 = s * strip, c1 = c0 + strip < a.table.cols ? c0 + strip : a.table.cols;
      for (int64_t r = 0; r < a.rows.rows; ++r) {
        const int64_t row = row_of(a, r);
        if (row < 0) continue;
        G* to = a.table.row<G>(row) + c0;
        const StripIn<T> from(a.rows.row<T>(r) + c0, c1 - c0);
#pragma omp simd
        for (int64_t c = 0; c < c1 - c0; ++c) to[c] += from[c] * scale;
      }
    }
  }
}

}  // namespace

void embedding_forward_cpu(const EmbeddingArgs& a) {
  with_type(a.rows.type, [&]<class T>(T*) { forward<T>(a); });
}
void embedding_backward_cpu(const EmbeddingBackwardArgs& a) {
  with_type(a.rows.type, [&]<class T>(T*) { backward<T, compute_t<T>>(a); });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
