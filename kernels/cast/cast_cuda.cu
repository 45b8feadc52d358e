// Element-wise copies, four elements for each thread where the rows allow it.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

// Narrows f64 to bf16 or f16 with the result of a single rounding, by way of an f32 that no second rounding takes for a
// tie.
template <class T> __device__ void narrow(T* out, double v) {
  const float f = static_cast<float>(v);
  const unsigned bits = __float_as_uint(f);
  const double wide = f, size = v < 0 ? -v : v, rounded = wide < 0 ? -wide : wide;
  const bool move = size != rounded && v == v && (bits & 1u) == 0;
  store(out, __uint_as_float(move ? (size > rounded ? bits + 1 : bits - 1) : bits));
}

template <class A, class B> __device__ __forceinline__ void convert(const A& in, B* out) {
  if constexpr (std::is_same_v<A, B>) *out = in;
  else if constexpr (sizeof(A) == 8 && sizeof(B) == 2) narrow(out, in);
  else store(out, static_cast<compute_t<B>>(widen(in)));
}

template <class A, class B, int V> __global__ void convert_kernel(CastArgs a) {
  const std::int64_t groups = a.to.cols / V;
  TRAINYARD_EACH(i, a.to.rows * groups) {
    const auto [r, g] = place_of(i, groups);
    const auto in = vec_at<V>(a.from.row<A>(r) + g * V);
    Vec<B, V> out;
    for (int k = 0; k < V; ++k) convert(in.v[k], &out.v[k]);
    put_vec(a.to.row<B>(r) + g * V, out);
  }
}

template <class T, int V> __global__ void add_kernel(CastArgs a) {
  const std::int64_t groups = a.to.cols / V;
  TRAINYARD_EACH(i, a.to.rows * groups) {
    const auto [r, g] = place_of(i, groups);
    T* to = a.to.row<T>(r) + g * V;
    auto sum = vec_at<V>(to);
    const auto more = vec_at<V>(a.from.row<T>(r) + g * V);
    for (int k = 0; k < V; ++k) store(&sum.v[k], widen(sum.v[k]) + widen(more.v[k]));
    put_vec(to, sum);
  }
}

template <int V> __global__ void round_to_bf16_kernel(CastArgs a) {
  const std::int64_t groups = a.to.cols / V;
  TRAINYARD_EACH(i, a.to.rows * groups) {
    const auto [r, g] = place_of(i, groups);
    float* to = a.to.row<float>(r) + g * V;
    auto values = vec_at<V>(to);
    for (int k = 0; k < V; ++k) {
      b16 rounded;
      store(&rounded, values.v[k]);
      values.v[k] = widen(rounded);
    }
    put_vec(to, values);
  }
}

template <class T> __global__ void fill_kernel(CastArgs a) {
  T value;
  if constexpr (sizeof(T) == 2) narrow(&value, a.value);
  else store(&value, static_cast<T>(a.value));
  TRAINYARD_EACH(i, a.to.rows * a.to.cols) {
    const auto [r, c] = place_of(i, a.to.cols);
    a.to.row<T>(r)[c] = value;
  }
}

template <class T> __global__ void scale_kernel(CastArgs a) {
  const auto factor = static_cast<compute_t<T>>(a.value);
  TRAINYARD_EACH(i, a.to.rows * a.to.cols) {
    const auto [r, c] = place_of(i, a.to.cols);
    T* y = a.to.row<T>(r) + c;
    store(y, widen(*y) * factor);
  }
}

}  // namespace

const char* gpu::cast(const CastArgs& a, void* stream) {
  const bool grouped = in_groups(4, a.from, a.to);
  const auto n = a.to.rows * a.to.cols;
  const auto blocks = blocks_for(grouped ? n / 4 : n);
  if (a.what == Elementwise::fill)
    with_type(a.to.type, [&]<class T>(T*) { TRAINYARD_LAUNCH(fill_kernel<T>, false, blocks_for(n), 256, stream, a); });
  else if (a.what == Elementwise::scale)
    with_type(a.to.type, [&]<class T>(T*) { TRAINYARD_LAUNCH(scale_kernel<T>, false, blocks_for(n), 256, stream, a); });
  else if (a.what == Elementwise::round_to_bf16) {
    constexpr auto one = round_to_bf16_kernel<1>, four = round_to_bf16_kernel<4>;
    const auto kernel = grouped ? four : one;
    TRAINYARD_LAUNCH(kernel, false, blocks, 256, stream, a);
  } else if (a.what == Elementwise::add)
    with_type(a.to.type, [&]<class T>(T*) {
      constexpr auto one = add_kernel<T, 1>, four = add_kernel<T, 4>;
      const auto kernel = grouped ? four : one;
      TRAINYARD_LAUNCH(kernel, false, blocks, 256, stream, a);
    });
  else
    with_type(a.from.type, [&]<class A>(A*) {
      with_type(a.to.type, [&]<class B>(B*) {
        constexpr auto one = convert_kernel<A, B, 1>, four = convert_kernel<A, B, 4>;
        const auto kernel = grouped ? four : one;
        TRAINYARD_LAUNCH(kernel, false, blocks, 256, stream, a);
      });
    });
  return launch_failure();
}

}  // namespace trainyard::kernels
