// Holds a program's advice.
#include "libtrain/base/advice.h"

#include "libtrain/base/nearest.h"

#include <fmt/format.h>

namespace trainyard::base {

namespace {

std::string close_name(const std::string& asked, const std::vector<std::string>& names) {
  const auto close = resembling(asked, names);
  return close.empty() ? close : fmt::format("did you mean '{}'?", close);
}

std::string no_advice(const std::string&) { return {}; }

constinit Advice of_program = {close_name, [](const std::string&, const std::string&) {}, no_advice, no_advice};

}  // namespace

void give_advice(const Advice& advice) { of_program = advice; }

const Advice& advice() { return of_program; }

}  // namespace trainyard::base
