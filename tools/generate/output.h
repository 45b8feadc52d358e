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

// Warns about several processes, once. They may be intended (a seed for each), but most often they are not. `written`
// is what each of them writes.
void warn_of_several(std::string_view program, std::string_view written);

}  // namespace trainyard::generate
