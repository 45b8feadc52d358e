// Mat: a view as plain data, for the compiled variants. So files compiled for an instruction set share no code with the
// rest.
#pragma once

#include "libtrain/base/anywhere.h"

#include <cstdint>

namespace trainyard::kernels {

enum class Type : int { f32, bf16, f64 };

struct Mat {
  void* data = nullptr;
  std::int64_t rows = 0, cols = 0, pitch = 0;
  Type type = Type::f32;
  template <class T> TRAINYARD_ANYWHERE T* row(std::int64_t r) const { return static_cast<T*>(data) + r * pitch; }
  TRAINYARD_ANYWHERE bool empty() const { return data == nullptr; }
};

}  // namespace trainyard::kernels
