// The units of amounts as texts.
#include "libtrain/base/amount.h"

#include <fmt/format.h>

namespace trainyard::base {

const char* name_of(Amount::Unit unit) {
  return unit == Amount::Unit::percent ? "%" : unit == Amount::Unit::samples ? "samples" : "";
}

// Whole numbers up to 10^15 have no exponent here.
std::string text_of(const Amount& amount) { return fmt::format("{}{}", amount.number, name_of(amount.unit)); }

}  // namespace trainyard::base
