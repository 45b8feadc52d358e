// Output: standard output, written at once.
#pragma once

#include "tools/common/program.h"

#include <string_view>

namespace trainyard::generate {

// A terminal gets no control characters (tools::print). A reader that went away is no error: nothing more is written.
class Output {
 public:
  void write(std::string_view text) {
    if (!gone_) gone_ = !tools::print(text);
  }
  bool gone() const { return gone_; }

 private:
  bool gone_ = false;
};

}  // namespace trainyard::generate
