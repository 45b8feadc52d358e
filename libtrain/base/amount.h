// Amount: a number that a setting takes as it is, or in another unit: "2000", "5%", "512000samples".
#pragma once

#include <string>

namespace trainyard::base {

struct Amount {
  enum class Unit {
    own,      // the unit of the setting
    percent,  // of another setting, which the help names
    samples,  // where the own unit is steps
  };
  double number = 0;
  Unit unit = Unit::own;

  Amount() = default;
  Amount(double value, Unit of = Unit::own) : number(value), unit(of) {}  // NOLINT(google-explicit-constructor)
  bool operator==(const Amount&) const = default;
};

const char* name_of(Amount::Unit unit);     // as it follows the number: "%", "samples", or nothing
std::string text_of(const Amount& amount);  // a field reads it back

}  // namespace trainyard::base
