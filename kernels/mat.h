// Mat and ConstMat: a View and a ConstView as plain data, for the compiled variants. So files compiled for an
// instruction set share no code with the rest.
#pragma once

#include "libtrain/base/anywhere.h"

#include <cstdint>
#include <type_traits>

namespace trainyard::kernels {

// X(name) of each element type of plain arguments, by the name of its base::DType: those that kernels use at all.
#define TRAINYARD_KERNEL_TYPES(X) X(f32) X(bf16) X(f64) X(f16)

#define TRAINYARD_KERNEL_TYPE(name) name,
enum class Type : int { TRAINYARD_KERNEL_TYPES(TRAINYARD_KERNEL_TYPE) };
#undef TRAINYARD_KERNEL_TYPE

// Memory is void, or const void for a matrix to read.
template <class Memory> struct MatOf {
  template <class T> using Element = std::conditional_t<std::is_const_v<Memory>, const T, T>;

  Memory* data = nullptr;
  std::int64_t rows = 0, cols = 0, pitch = 0;
  Type type = Type::f32;
  template <class T> TRAINYARD_ANYWHERE Element<T>* row(std::int64_t r) const {
    return static_cast<Element<T>*>(data) + r * pitch;
  }
  // The elements of a matrix of one row.
  template <class T> TRAINYARD_ANYWHERE Element<T>* ptr() const { return static_cast<Element<T>*>(data); }
  TRAINYARD_ANYWHERE bool empty() const { return data == nullptr; }
  // What may be written may be read.
  template <class Read>
  requires(!std::is_const_v<Memory> && std::is_same_v<Read, const void>) TRAINYARD_ANYWHERE operator MatOf<Read>()
      const {
    return {data, rows, cols, pitch, type};
  }
};

using Mat = MatOf<void>;
// A Mat of what is only read. A Mat converts to it.
using ConstMat = MatOf<const void>;

}  // namespace trainyard::kernels
