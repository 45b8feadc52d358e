// Asks the system.
#include "libtrain/base/host.h"

#include <unistd.h>

namespace trainyard::base {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "?";
}

}  // namespace trainyard::base
