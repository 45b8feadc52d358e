// Helpers of the dispatchers: conversion of views, and checks of shapes and types.
#pragma once

#include "kernels/mat.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <utility>

namespace trainyard::kernels {

// The element types of plain arguments, and what they are elsewhere.
#define TRAINYARD_TYPE_OF_KERNELS(name) std::pair{base::DType::name, Type::name},
inline constexpr std::array types_of_kernels = {TRAINYARD_KERNEL_TYPES(TRAINYARD_TYPE_OF_KERNELS)};
#undef TRAINYARD_TYPE_OF_KERNELS
inline Type type_of(base::DType t) {
  for (const auto& [dtype, type] : types_of_kernels)
    if (dtype == t) return type;
  base::invariant_failed(__FILE__, __LINE__, "type of an operand", fmt::format("kernels take no {}", base::name_of(t)));
}
inline base::DType dtype_of(Type t) {
  for (const auto& [dtype, type] : types_of_kernels)
    if (type == t) return dtype;
  base::invariant_failed(__FILE__, __LINE__, "type of an operand", "no dtype");
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

// The dtypes whose traits satisfy `has`, in the order of the table.
template <auto has> constexpr auto types_where() {
  constexpr auto count = static_cast<std::size_t>(std::ranges::count_if(base::dtype_traits, has));
  std::array<base::DType, count> out{};
  std::size_t at = 0;
  for (const auto& t : base::dtype_traits)
    if (has(t)) out[at++] = t.dtype;
  return out;
}
// The dtypes that kernels compute in, those of working copies, and those that kernels accumulate in.
inline constexpr auto working_types = types_where<[](const base::DTypeTraits& t) { return t.kernels; }>();
inline constexpr auto narrow_types = types_where<[](const base::DTypeTraits& t) { return t.narrow; }>();
inline constexpr auto accumulation_types =
    types_where<[](const base::DTypeTraits& t) { return t.kernels && base::accumulation_of(t.dtype) == t.dtype; }>();

// Throws what a failed require_shape throws: operation, operand, and the types expected and found by name.
[[noreturn]] void wrong_type(base::DType found, std::span<const base::DType> expected, const char* operation,
                             const char* operand);

// The checks of types. An absent view passes, because kernels ignore its type.
inline void require_types(const base::ConstView& v, std::span<const base::DType> expected, const char* operation,
                          const char* operand) {
  if (v && std::find(expected.begin(), expected.end(), v.dtype) == expected.end())
    wrong_type(v.dtype, expected, operation, operand);
}
inline void require_type(const base::ConstView& v, base::DType expected, const char* operation, const char* operand) {
  if (v && v.dtype != expected) wrong_type(v.dtype, std::span(&expected, 1), operation, operand);
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
  std::array<base::DType, working_types.size()> types{};
  const auto end = std::ranges::copy_if(working_types, types.begin(), [accumulation](base::DType t) {
                     return accumulation_of(t) == accumulation;
                   }).out;
  require_types(v, std::span(types.begin(), end), operation, operand);
}

// The result of a product: the dtype of its operands, or f32 for narrow ones.
inline void require_type_of_product(const base::ConstView& v, base::DType operands, const char* operation,
                                    const char* operand) {
  const std::array either{operands, base::DType::f32};
  require_types(v, std::span(either).first(base::is_narrow(operands) ? 2 : 1), operation, operand);
}

}  // namespace trainyard::kernels
