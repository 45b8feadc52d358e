// MatrixBuffer: a matrix of any dtype that kernels use, with a pitch and a poisoned gap, for kernel tests. Elements are
// read and written as doubles.
#pragma once

#include "kernels/dispatch.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace trainyard::test {

using base::DType;

struct MatrixBuffer {
  std::int64_t rows, cols, pitch;
  DType dtype;
  std::vector<char> bytes;

  // Every element, and the gap behind each row, starts as NaN.
  MatrixBuffer(DType t, std::int64_t r, std::int64_t c, std::int64_t gap = 0)
      : rows(r), cols(c), pitch(c + gap), dtype(t) {
    bytes.resize(static_cast<std::size_t>(rows * pitch * base::size_of(t)));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < pitch; ++j) set(i, j, std::numeric_limits<double>::quiet_NaN());
  }
  // Values in [-1, 1) from a small generator, rounded to the dtype.
  MatrixBuffer& fill(std::uint64_t seed) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        set(i, j, static_cast<double>(seed >> 33) * 0x1p-30 - 1);
      }
    return *this;
  }
  double operator()(std::int64_t i, std::int64_t j) const {
    const auto at = static_cast<std::size_t>(i * pitch + j);
    if (dtype == DType::f64) return reinterpret_cast<const double*>(bytes.data())[at];
    if (dtype == DType::f32) return reinterpret_cast<const float*>(bytes.data())[at];
    if (dtype == DType::f16) return static_cast<float>(reinterpret_cast<const base::f16*>(bytes.data())[at]);
    return static_cast<float>(reinterpret_cast<const base::bf16*>(bytes.data())[at]);
  }
  void set(std::int64_t i, std::int64_t j, double v) {
    const auto at = static_cast<std::size_t>(i * pitch + j);
    if (dtype == DType::f64) reinterpret_cast<double*>(bytes.data())[at] = v;
    else if (dtype == DType::f32) reinterpret_cast<float*>(bytes.data())[at] = static_cast<float>(v);
    else if (dtype == DType::f16) reinterpret_cast<base::f16*>(bytes.data())[at] = base::f16(static_cast<float>(v));
    else reinterpret_cast<base::bf16*>(bytes.data())[at] = base::bf16(static_cast<float>(v));
  }
  base::View view() {
    base::View v(bytes.data(), dtype, {rows, cols});
    v.pitch = pitch;
    return v;
  }
  bool gap_untouched() const {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = cols; j < pitch; ++j)
        if (!std::isnan((*this)(i, j))) return false;
    return true;
  }
};

inline DType accumulation(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }
// The relative rounding of one result: of its accumulation and its last store.
inline double rounding(DType t) {
  return t == DType::f64 ? 1e-13 : t == DType::f32 ? 3e-6 : t == DType::bf16 ? 0x1p-8 : 0x1p-11;
}
// How far the store of `value` in a narrow dtype may move it. f16 has subnormal numbers, 2^-24 apart.
inline double of_store(DType t, double value) {
  if (t == DType::f16) return std::max(0x1p-11 * std::abs(value), 0x1p-25);
  return t == DType::bf16 ? 0x1p-8 * std::abs(value) : 0;
}

// Runs body() once for each instruction-set path of this machine, and for the emulated paths.
template <class Body> void on_every_path(const Body& body) {
  const auto best = kernels::best_isa();
  for (auto isa : {kernels::Isa::baseline, kernels::Isa::avx2, kernels::Isa::avx512, kernels::Isa::avx512bf16,
                   kernels::Isa::amx, kernels::Isa::emulated_bf16, kernels::Isa::emulated_amx}) {
    if (!kernels::machine_has(isa)) continue;
    kernels::set_isa(isa);
    body();
  }
  kernels::set_isa(best);
}

// An Exec with scratch of its own.
struct Bench {
  tensor::Arena arena;
  std::unique_ptr<tensor::Exec> exec;
  explicit Bench(int threads, std::int64_t bytes = 64 << 20)
      : arena(tensor::Category::workspace, bytes), exec(tensor::Exec::caller(&arena, threads)) {}
  tensor::Exec& operator*() { return *exec; }
};

}  // namespace trainyard::test
