// What an Event refers to. Only the Execs of this package use it.
#pragma once

#include "libtrain/tensor/exec.h"

namespace trainyard::tensor {

struct Event::State {
  virtual ~State() = default;
  virtual bool done() = 0;
  virtual void wait() = 0;  // blocks the calling thread; rethrows what earlier work threw
};

}  // namespace trainyard::tensor
