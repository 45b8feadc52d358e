// Loops over rows of a working type, in the type that kernels compute in. Instructions convert f16 by whole registers,
// which compilers do not find in a loop over single elements. So loops widen a strip of f16, compute on floats, and
// narrow a strip. Other types are converted element by element, and their rows are one strip. Included only by
// *_cpu.cpp, once per instruction set.
#pragma once

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// Elements of a strip of f16. All strips but a row's last are multiples of the 16 lanes of a LaneSum.
constexpr std::int64_t f16_strip = 256;

// Calls body(c0, m) for the strips [c0, c0 + m) of a row of n elements of type T.
template <class T, class Body>
inline __attribute__((always_inline)) void over_strips(std::int64_t n, const Body& body) {
  if constexpr (std::is_same_v<T, h16>) {
    for (std::int64_t c0 = 0; c0 < n; c0 += f16_strip) body(c0, n - c0 < f16_strip ? n - c0 : f16_strip);
  } else {
    body(std::int64_t{0}, n);
  }
}

// A strip that is read. f16: a copy from when it was made, so the row may be written to.
template <class T> class StripIn {
 public:
  StripIn(const T* from, std::int64_t) : from_(from) {}
  compute_t<T> operator[](std::int64_t i) const { return widen(from_[i]); }

 private:
  const T* from_;
};
template <> class StripIn<h16> {
 public:
  StripIn(const h16* from, std::int64_t n) { widen_row(wide_, from, n); }
  float operator[](std::int64_t i) const { return wide_[i]; }

 private:
  float wide_[f16_strip];
};

// A strip that is written, each element once. It is in the row after finish().
template <class T> class StripOut {
 public:
  StripOut(T* to, std::int64_t) : to_(to) {}
  void put(std::int64_t i, compute_t<T> v) { store(&to_[i], v); }
  void finish() {}

 private:
  T* to_;
};
template <> class StripOut<h16> {
 public:
  StripOut(h16* to, std::int64_t n) : to_(to), n_(n) {}
  void put(std::int64_t i, float v) { wide_[i] = v; }
  void finish() { narrow_row(to_, wide_, n_); }

 private:
  h16* to_;
  std::int64_t n_;
  float wide_[f16_strip];
};

// out[i] = f(in[i] ...) for i in [0, n), rounded once. A row may be both.
template <class T, class F, class... In>
inline __attribute__((always_inline)) void map_row(std::int64_t n, T* out, const F& f, const In*... in) {
  over_strips<T>(
      n, [&](std::int64_t c0, std::int64_t m) __attribute__((always_inline)) {
        const auto map = [&](const auto&... x) __attribute__((always_inline)) {
          StripOut<T> y(out + c0, m);
#pragma omp simd
          for (std::int64_t i = 0; i < m; ++i) y.put(i, f(x[i]...));
          y.finish();
        };
        map(StripIn<T>(in + c0, m)...);
      });
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
