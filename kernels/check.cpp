// The message about an operand's type.
#include "kernels/check.h"

#include <string>

namespace trainyard::kernels {

void wrong_type(base::DType found, std::span<const base::DType> expected, const char* operation, const char* operand) {
  std::string names;
  for (const auto& t : expected) {
    if (!names.empty()) names += &t == &expected.back() ? " or " : ", ";
    names += base::name_of(t);
  }
  base::invariant_failed(
      __FILE__, __LINE__, "type of an operand",
      fmt::format("{}: type of {}: expected {}, found {}", operation, operand, names, base::name_of(found)));
}

}  // namespace trainyard::kernels
