// WeightStore refuses gradients.
#include "libtrain/params/weight_store.h"

#include "libtrain/base/error.h"

#include <cstdlib>

namespace trainyard::params {

void WeightStore::no_gradients() {
  TRAINYARD_ASSERT(false, "a pass over weights alone takes no gradients");
  std::abort();
}

}  // namespace trainyard::params
