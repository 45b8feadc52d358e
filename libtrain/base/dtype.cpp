// Names of element types, and arrays of values.
#include "libtrain/base/dtype.h"

#include "libtrain/base/error.h"

#include <fmt/ranges.h>

namespace trainyard::base {

namespace {

constexpr bool in_order() {
  for (std::size_t i = 0; i < dtype_traits.size(); ++i)
    if (dtype_traits[i].dtype != static_cast<DType>(i)) return false;
  return true;
}
static_assert(in_order(), "a dtype is its index in the list");

}  // namespace

const char* name_of(DType t) { return traits_of(t).name; }

DType dtype_from_name(std::string_view name) {
  for (const auto& t : dtype_traits)
    if (name == t.name) return t.dtype;
  throw UsageError(fmt::format("unknown dtype '{}'", name),
                   fmt::format("use {}", fmt::join(names_of_working_dtypes(), " or ")));
}

std::vector<std::string> names_of_working_dtypes() {
  std::vector<std::string> names;
  for (const auto& t : dtype_traits)
    if (t.trains) names.emplace_back(t.name);
  return names;
}

void to_f32(DType dtype, const void* from, std::int64_t count, float* to) {
  TRAINYARD_ASSERT(traits_of(dtype).digits > 0, "f32 from {}", name_of(dtype));
  with_value_type(dtype, [&]<class T>(T*) {
    const auto* values = static_cast<const T*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(values[i]);
  });
}

void from_f32(DType dtype, const float* from, std::int64_t count, void* to) {
  TRAINYARD_ASSERT(traits_of(dtype).digits > 0, "{} from f32", name_of(dtype));
  with_value_type(dtype, [&]<class T>(T*) {
    auto* values = static_cast<T*>(to);
    for (std::int64_t i = 0; i < count; ++i) values[i] = T(from[i]);
  });
}

}  // namespace trainyard::base
