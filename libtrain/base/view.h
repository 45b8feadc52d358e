// View: pointer, dtype, shape and device of a tensor. It is a value and owns no memory.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/base/error.h"

#include <array>
#include <cstdint>
#include <initializer_list>

namespace trainyard::base {

enum class DeviceKind : std::uint8_t { cpu, cuda };
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

// Row-major, with at most four dims; a view without dims is empty. All dims but the last are merged into `rows()`. The
// last dim is dense, and consecutive rows are `pitch` elements apart (pitch >= cols()). So a slice of columns is a view
// too.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device device{};
  int dims = 0;  // number of dims
  std::array<std::int64_t, 4> shape{};
  std::int64_t pitch = 0;

  View() = default;
  View(void* p, DType t, std::initializer_list<std::int64_t> sizes, Device d = {}) : data(p), dtype(t), device(d) {
    TRAINYARD_ASSERT(sizes.size() >= 1 && sizes.size() <= 4, "a view has 1 to 4 dims, not {}", sizes.size());
    for (auto n : sizes) shape[static_cast<std::size_t>(dims++)] = n;
    pitch = cols();
  }
  template <class T> static View of(T* p, std::initializer_list<std::int64_t> sizes) {
    return View(const_cast<std::remove_const_t<T>*>(p), DTypeOf<std::remove_const_t<T>>::value, sizes);
  }

  explicit operator bool() const { return data != nullptr; }
  std::int64_t cols() const { return dims == 0 ? 0 : shape[static_cast<std::size_t>(dims - 1)]; }
  std::int64_t rows() const {
    std::int64_t n = dims == 0 ? 0 : 1;
    for (int i = 0; i + 1 < dims; ++i) n *= shape[static_cast<std::size_t>(i)];
    return n;
  }
  std::int64_t count() const { return rows() * cols(); }           // logical elements
  std::int64_t bytes() const { return count() * size_of(dtype); }  // without padding
  bool dense() const { return pitch == cols() || rows() <= 1; }

  template <class T> T* ptr() const {
    TRAINYARD_ASSERT(DTypeOf<std::remove_const_t<T>>::value == dtype, "view holds {}", name_of(dtype));
    return static_cast<T*>(data);
  }
  template <class T> T* row(std::int64_t r) const { return ptr<T>() + r * pitch; }

  // Columns [first, first + n) of every row.
  View columns(std::int64_t first, std::int64_t n) const {
    View v = *this;
    v.data = static_cast<char*>(data) + first * size_of(dtype);
    v.shape[static_cast<std::size_t>(dims - 1)] = n;
    return v;
  }
  // Rows [first, first + n) as a 2-D view.
  View row_range(std::int64_t first, std::int64_t n) const {
    View v = *this;
    v.data = static_cast<char*>(data) + first * pitch * size_of(dtype);
    v.dims = 2;
    v.shape = {n, cols(), 0, 0};
    return v;
  }
  // The same elements with another shape; the view must be dense.
  View reshaped(std::initializer_list<std::int64_t> sizes) const {
    View v(data, dtype, sizes, device);
    TRAINYARD_ASSERT(dense() && v.count() == count(), "cannot reshape {} to {} elements", count(), v.count());
    return v;
  }
};

}  // namespace trainyard::base
