// Element-wise copies, one element a thread.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

// One rounding from double to bf16, by way of an f32 that no later rounding takes for a tie.
__device__ void narrow(b16* out, double v) {
  const float f = static_cast<float>(v);
  const unsigned bits = __float_as_uint(f);
  const double wide = f, size = v < 0 ? -v : v, rounded = wide < 0 ? -wide : wide;
  const bool move = size != rounded && v == v && (bits & 1u) == 0;
  store(out, __uint_as_float(move ? (size > rounded ? bits + 1 : bits - 1) : bits));
}

template <class A, class B> __global__ void convert_kernel(CastArgs a) {
  TRAINYARD_EACH(i, a.to.rows * a.to.cols) {
    const auto r = i / a.to.cols, c = i % a.to.cols;
    const A in = a.from.row<A>(r)[c];
    B* out = a.to.row<B>(r) + c;
    if constexpr (sizeof(A) == sizeof(B)) *out = in;
    else if constexpr (sizeof(A) == 8 && sizeof(B) == 2) narrow(out, in);
    else store(out, static_cast<compute_t<B>>(widen(in)));
  }
}

template <class T> __global__ void add_kernel(CastArgs a) {
  TRAINYARD_EACH(i, a.to.rows * a.to.cols) {
    const auto r = i / a.to.cols, c = i % a.to.cols;
    T* out = a.to.row<T>(r) + c;
    store(out, widen(*out) + widen(a.from.row<T>(r)[c]));
  }
}

template <class T> __global__ void fill_kernel(CastArgs a) {
  T value;
  if constexpr (sizeof(T) == 2) narrow(&value, a.value);
  else store(&value, static_cast<T>(a.value));
  TRAINYARD_EACH(i, a.to.rows * a.to.cols) a.to.row<T>(i / a.to.cols)[i % a.to.cols] = value;
}

}  // namespace

const char* gpu::cast(const CastArgs& a, void* stream) {
  const auto blocks = blocks_for(a.to.rows * a.to.cols);
  if (a.what == Elementwise::fill) with_type(a.to.type, [&]<class T>(T*) { TRAINYARD_LAUNCH(fill_kernel<T>, false, blocks, 256, stream, a); });
  else if (a.what == Elementwise::add) with_type(a.to.type, [&]<class T>(T*) { TRAINYARD_LAUNCH(add_kernel<T>, false, blocks, 256, stream, a); });
  else
    with_type(a.from.type, [&]<class A>(A*) {
      with_type(a.to.type, [&]<class B>(B*) {
        constexpr auto kernel = convert_kernel<A, B>;
        TRAINYARD_LAUNCH(kernel, false, blocks, 256, stream, a);
      });
    });
  return launch_failure();
}

}  // namespace trainyard::kernels
