// Timed waits for events.
#include "libtrain/params/rank_execs.h"

#include "libtrain/base/here_and_now.h"
#include "libtrain/base/trace_kinds.h"

namespace trainyard::params {

void RankExecs::join(const tensor::Event& event) {
  if (event.state() == nullptr) return;  // nothing to wait for, so no trace span
  if (compute.on_gpu()) {                // the GPU's stream waits, not this thread
    const base::TraceScope traced(base::traced::wait, "wait");
    const tensor::Span blocked(compute);
    return compute.wait(event);
  }
  if (event.done()) {
    event.wait();  // rethrows an exception of the other thread
    return;
  }
  const base::TraceScope traced(base::traced::wait, "wait");
  const double start = base::steady_seconds();
  compute.wait(event);
  wait_seconds += base::steady_seconds() - start;
}

}  // namespace trainyard::params
