// Names of element types.
#include "libtrain/base/dtype.h"

#include "libtrain/base/error.h"

namespace trainyard::base {

const char* name_of(DType t) {
  switch (t) {
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::u8: return "u8";
    case DType::u16: return "u16";
    case DType::u32: return "u32";
    case DType::u64: return "u64";
  }
  return "?";
}

DType dtype_from_name(std::string_view name) {
  for (auto t :
       {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64})
    if (name == name_of(t)) return t;
  throw UsageError(fmt::format("unknown dtype '{}'", name), "use f32 or bf16");
}

}  // namespace trainyard::base
