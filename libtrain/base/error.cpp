// The failing end of TRAINYARD_ASSERT.
#include "libtrain/base/error.h"

namespace trainyard::base {

void invariant_failed(const char* file, int line, const char* condition, const std::string& values) {
  throw std::logic_error(fmt::format("{}:{}: internal check '{}' failed: {}", file, line, condition, values));
}

}  // namespace trainyard::base
