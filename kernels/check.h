// Helpers of the dispatchers: conversion of views, and shape checks.
#pragma once

#include "kernels/mat.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

inline Type type_of(base::DType t) {
  TRAINYARD_ASSERT(t == base::DType::f32 || t == base::DType::bf16 || t == base::DType::f64,
                   "kernels compute in f32, bf16 or f64, not {}", base::name_of(t));
  return t == base::DType::f32 ? Type::f32 : t == base::DType::bf16 ? Type::bf16 : Type::f64;
}

inline Mat mat(const base::View& v) {
  if (!v) return {};
  return {v.data, v.rows(), v.cols(), v.pitch, type_of(v.dtype)};
}

// The dtype of statistics and weight gradients for a working dtype.
inline base::DType accumulation_of(base::DType working) {
  return working == base::DType::f64 ? base::DType::f64 : base::DType::f32;
}

inline void require_shape(const base::View& v, std::int64_t rows, std::int64_t cols, const char* what) {
  TRAINYARD_ASSERT(v.rows() == rows && v.cols() == cols, "{}: expected {} x {}, found {} x {}", what, rows, cols,
                   v.rows(), v.cols());
}

}  // namespace trainyard::kernels
