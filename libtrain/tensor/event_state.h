// What an Event refers to. For the Execs of this room alone.
#pragma once

#include "libtrain/tensor/exec.h"

namespace trainyard::tensor {

struct Event::State {
  virtual ~State() = default;
  virtual bool done() = 0;
  virtual void wait() = 0;  // blocks the calling thread; rethrows what the work before threw
};

}  // namespace trainyard::tensor
