// View and ConstView: pointer, dtype, shape and device of a tensor. They are values and own no memory.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace trainyard::base {

enum class DeviceKind : std::uint8_t { cpu, cuda };
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

// Row-major, with at most four dims; a view without dims is empty. All dims but the last are merged into `rows()`. The
// last dim is dense, and consecutive rows are `pitch` elements apart (pitch >= cols()). So a slice of columns is a view
// too. Memory is void, or const void for a view to read.
template <class Memory> struct ViewOf {
  template <class T> using Element = std::conditional_t<std::is_const_v<Memory>, const T, T>;

  Memory* data = nullptr;
  DType dtype = DType::f32;
  Device device{};
  int dims = 0;  // number of dims
  std::array<std::int64_t, 4> shape{};
  std::int64_t pitch = 0;

  ViewOf() = default;
  ViewOf(Memory* p, DType t, std::initializer_list<std::int64_t> sizes, Device d = {}) : data(p), dtype(t), device(d) {
    TRAINYARD_ASSERT(sizes.size() >= 1 && sizes.size() <= 4, "a view has 1 to 4 dims, not {}", sizes.size());
    for (auto n : sizes) at(shape, dims++) = n;
    pitch = cols();
  }
  // What may be written may be read.
  template <class Writable>
  requires(std::is_const_v<Memory>&& std::is_same_v<Writable, void>) ViewOf(const ViewOf<Writable>& v)
      : data(v.data), dtype(v.dtype), device(v.device), dims(v.dims), shape(v.shape), pitch(v.pitch) {}
  // Of an array on the host. What is const may only be read.
  template <class T> static ViewOf<std::conditional_t<std::is_const_v<T>, const void, Memory>> of(
      T* p, std::initializer_list<std::int64_t> sizes) {
    return {p, DTypeOf<std::remove_const_t<T>>::value, sizes};
  }

  explicit operator bool() const { return data != nullptr; }
  std::int64_t cols() const { return dims == 0 ? 0 : at(shape, dims - 1); }
  std::int64_t rows() const {
    std::int64_t n = dims == 0 ? 0 : 1;
    for (int i = 0; i + 1 < dims; ++i) n *= at(shape, i);
    return n;
  }
  std::int64_t count() const { return rows() * cols(); }           // logical elements
  std::int64_t bytes() const { return count() * size_of(dtype); }  // without padding
  bool dense() const { return pitch == cols() || rows() <= 1; }

  template <class T> Element<T>* ptr() const {
    TRAINYARD_ASSERT(DTypeOf<std::remove_const_t<T>>::value == dtype, "view holds {}", name_of(dtype));
    return static_cast<Element<T>*>(data);
  }
  template <class T> Element<T>* row(std::int64_t r) const { return ptr<T>() + r * pitch; }

  // Columns [first, first + n) of every row.
  ViewOf columns(std::int64_t first, std::int64_t n) const {
    ViewOf v = *this;
    v.data = static_cast<Element<char>*>(data) + first * size_of(dtype);
    at(v.shape, dims - 1) = n;
    return v;
  }
  // Rows [first, first + n) as a 2-D view.
  ViewOf row_range(std::int64_t first, std::int64_t n) const {
    ViewOf v = *this;
    v.data = static_cast<Element<char>*>(data) + first * pitch * size_of(dtype);
    v.dims = 2;
    v.shape = {n, cols(), 0, 0};
    return v;
  }
  // Elements [first, first + n) of a dense view, in one dim.
  ViewOf elements(std::int64_t first, std::int64_t n) const {
    return ViewOf(static_cast<Element<char>*>(data) + first * size_of(dtype), dtype, {n}, device);
  }
  // The same elements with another shape; the view must be dense.
  ViewOf reshaped(std::initializer_list<std::int64_t> sizes) const {
    ViewOf v(data, dtype, sizes, device);
    TRAINYARD_ASSERT(dense() && v.count() == count(), "cannot reshape {} to {} elements", count(), v.count());
    return v;
  }
};

using View = ViewOf<void>;
// A View of what is only read. A View converts to it.
using ConstView = ViewOf<const void>;

}  // namespace trainyard::base
