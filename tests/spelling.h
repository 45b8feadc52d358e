// Another spelling of settings for a part of a test. Elsewhere tests spell flags (settings_as_flags.cpp).
#pragma once

#include "libtrain/base/setting_text.h"

namespace trainyard::testing {

class Spelled {
 public:
  explicit Spelled(base::SettingSpelling spelling) : before_(base::spell_settings(spelling)) {}
  ~Spelled() { base::spell_settings(before_); }
  Spelled(const Spelled&) = delete;
  Spelled& operator=(const Spelled&) = delete;

 private:
  base::SettingSpelling before_;
};

}  // namespace trainyard::testing
