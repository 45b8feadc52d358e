// Names of element types.
#include "libtrain/base/dtype.h"

#include "libtrain/base/error.h"

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
  throw UsageError(fmt::format("unknown dtype '{}'", name), "use f32 or bf16");
}

}  // namespace trainyard::base
