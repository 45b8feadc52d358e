// Element-wise copies, in blocks that the threads share.
#include "kernels/cast/cast_args.h"

#include "kernels/strips_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

// Calls body(row, first column, end column) for blocks of at most 16 Ki columns.
template <class Body> void over_blocks(const Mat& m, int threads, const Body& body) {
  constexpr int64_t block = 16384;
  const int64_t per_row = (m.cols + block - 1) / block, blocks = m.rows * per_row;
#pragma omp parallel for num_threads(threads) schedule(static) if (blocks > 1)
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t c0 = b % per_row * block, c1 = c0 + block < m.cols ? c0 + block : m.cols;
    body(b / per_row, c0, c1);
  }
}

// Narrows f64 to bf16 or f16 by way of f32, with the result of a single rounding. A value that f32 cannot hold goes to
// the f32 neighbour with an odd last bit. The second rounding never takes that neighbour for a tie.
template <class T> inline void narrow(T* out, double v) {
  const float f = static_cast<float>(v);
  const std::uint32_t bits = float_to_bits(f);
  const double wide = f, size = v < 0 ? -v : v, rounded = wide < 0 ? -wide : wide;
  const bool move = size != rounded && v == v && (bits & 1u) == 0;
  store(out, bits_to_float(move ? (size > rounded ? bits + 1 : bits - 1) : bits));
}

template <class A, class B> void convert(const CastArgs& a) {
  over_blocks(a.to, a.threads, [&](int64_t r, int64_t c0, int64_t c1) {
    const A* in = a.from.row<A>(r);
    B* out = a.to.row<B>(r);
    if constexpr (std::is_same_v<A, float> && sizeof(B) == 2) return narrow_row(out + c0, in + c0, c1 - c0);
    if constexpr (std::is_same_v<B, float> && sizeof(A) == 2) return widen_row(out + c0, in + c0, c1 - c0);
    for (int64_t c = c0; c < c1; ++c) {
      if constexpr (std::is_same_v<A, B>) out[c] = in[c];
      else if constexpr (sizeof(A) == 8 && sizeof(B) == 2) narrow(&out[c], in[c]);
      else store(&out[c], static_cast<compute_t<B>>(widen(in[c])));
    }
  });
}

template <class T> void add_to(const CastArgs& a) {
  over_blocks(a.to, a.threads, [&](int64_t r, int64_t c0, int64_t c1) {
    const T* in = a.from.row<T>(r);
    T* out = a.to.row<T>(r);
    using F = compute_t<T>;
    map_row(
        c1 - c0, out + c0, [](F sum, F v) { return sum + v; }, out + c0, in + c0);
  });
}

template <class T> void scale_by(const CastArgs& a) {
  using F = compute_t<T>;
  over_blocks(a.to, a.threads, [&, factor = static_cast<F>(a.value)](int64_t r, int64_t c0, int64_t c1) {
    T* out = a.to.row<T>(r);
    map_row(
        c1 - c0, out + c0, [factor](F v) { return v * factor; }, out + c0);
  });
}

void round_values(const CastArgs& a) {
  over_blocks(a.to, a.threads, [&](int64_t r, int64_t c0, int64_t c1) {
    float* values = a.to.row<float>(r);
#pragma omp simd
    for (int64_t c = c0; c < c1; ++c) {
      b16 rounded;
      store(&rounded, values[c]);
      values[c] = widen(rounded);
    }
  });
}

template <class T> void fill_with(const CastArgs& a) {
  over_blocks(a.to, a.threads, [&](int64_t r, int64_t c0, int64_t c1) {
    T value;
    if constexpr (sizeof(T) == 2) narrow(&value, a.value);
    else store(&value, static_cast<T>(a.value));
    T* out = a.to.row<T>(r);
    for (int64_t c = c0; c < c1; ++c) out[c] = value;
  });
}

}  // namespace

void cast_cpu(const CastArgs& a) {
  if (a.what == Elementwise::fill) return with_type(a.to.type, [&]<class T>(T*) { fill_with<T>(a); });
  if (a.what == Elementwise::scale) return with_type(a.to.type, [&]<class T>(T*) { scale_by<T>(a); });
  if (a.what == Elementwise::round_to_bf16) return round_values(a);
  if (a.what == Elementwise::add) return with_type(a.to.type, [&]<class T>(T*) { add_to<T>(a); });
  with_type(a.from.type, [&]<class A>(A*) { with_type(a.to.type, [&]<class B>(B*) { convert<A, B>(a); }); });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
