// Helpers of the dispatchers: conversion of views, and checks of shapes and types.
#pragma once

#include "kernels/mat.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <algorithm>
#include <initializer_list>

namespace trainyard::kernels {

inline Type type_of(base::DType t) {
  TRAINYARD_ASSERT(t == base::DType::f32 || t == base::DType::bf16 || t == base::DType::f64,
                   "kernels compute in f32, bf16 or f64, not {}", base::name_of(t));
  return t == base::DType::f32 ? Type::f32 : t == base::DType::bf16 ? Type::bf16 : Type::f64;
}
inline base::DType dtype_of(Type t) {
  return t == Type::f32 ? base::DType::f32 : t == Type::bf16 ? base::DType::bf16 : base::DType::f64;
}

// The view as plain data: a Mat of a View, a ConstMat of a ConstView. An absent view becomes an empty one.
template <class Memory> MatOf<Memory> mat(const base::ViewOf<Memory>& v) {
  if (!v) return {};
  return {.data = v.data, .rows = v.rows(), .cols = v.cols(), .pitch = v.pitch, .type = type_of(v.dtype)};
}

using base::accumulation_of;  // of statistics and weight gradients

inline void require_shape(const base::ConstView& v, std::int64_t rows, std::int64_t cols, const char* what) {
  TRAINYARD_ASSERT(v.rows() == rows && v.cols() == cols, "{}: expected {} x {}, found {} x {}", what, rows, cols,
                   v.rows(), v.cols());
}

// The dtypes that kernels compute in, and those that they accumulate in.
inline constexpr std::initializer_list<base::DType> working_types{base::DType::f32, base::DType::bf16,
                                                                  base::DType::f64};
inline constexpr std::initializer_list<base::DType> accumulation_types{base::DType::f32, base::DType::f64};

// Throws what a failed require_shape throws: operation, operand, and the types expected and found by name.
[[noreturn]] void wrong_type(base::DType found, std::initializer_list<base::DType> expected, const char* operation,
                             const char* operand);

// The checks of types. An absent view passes, because kernels ignore its type.
inline void require_types(const base::ConstView& v, std::initializer_list<base::DType> expected, const char* operation,
                          const char* operand) {
  if (v && std::find(expected.begin(), expected.end(), v.dtype) == expected.end())
    wrong_type(v.dtype, expected, operation, operand);
}
inline void require_type(const base::ConstView& v, base::DType expected, const char* operation, const char* operand) {
  if (v && v.dtype != expected) wrong_type(v.dtype, {expected}, operation, operand);
}

struct NamedView {
  const char* name;
  base::ConstView view;
};
// All operands have the dtype of the first, which is a working dtype.
inline void require_working_type(const char* operation, std::initializer_list<NamedView> operands) {
  const auto& first = *operands.begin();
  require_types(first.view, working_types, operation, first.name);
  for (const auto& o : operands) require_type(o.view, first.view.dtype, operation, o.name);
}

// A working dtype that is accumulated in `accumulation`.
inline void require_type_of_sums(const base::ConstView& v, base::DType accumulation, const char* operation,
                                 const char* operand) {
  if (accumulation == base::DType::f64) require_type(v, accumulation, operation, operand);
  else require_types(v, {base::DType::f32, base::DType::bf16}, operation, operand);
}

// The result of a product: the dtype of its operands, or f32 for bf16.
inline void require_type_of_product(const base::ConstView& v, base::DType operands, const char* operation,
                                    const char* operand) {
  if (operands == base::DType::bf16) require_types(v, {base::DType::bf16, base::DType::f32}, operation, operand);
  else require_type(v, operands, operation, operand);
}

}  // namespace trainyard::kernels
