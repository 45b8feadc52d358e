// StageLink: what a pipeline stage receives from the stages beside it, and sends to them.
#pragma once

#include "libtrain/comm/neighbours.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/micro_shape.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>

namespace trainyard::engine {

// Messages are residual streams and their gradients: [stream rows, hidden] in the working dtype. Activations arrive in
// one place and are taken from there, so that the next may arrive while a micro-batch is computed; gradients arrive in
// the stream whose output was sent, and leave from a copy, so that the stream is free at once. Called by the compute
// thread, in the order of a list of actions (plan/schedule.h). Waits of compute count as exposed communication.
class StageLink {
 public:
  // Of a rank that `hears_before` of its chunks it takes room for two streams in `activations`, to evaluate for one.
  StageLink(comm::Neighbours& neighbours, params::StoreContext& context, tensor::Arena& activations, bool hears_before,
            std::int64_t rows, std::int64_t hidden, plan::Pass pass);

  void await_activations();  // from now on they may arrive, once those before were taken
  void take_activations(base::View stream);
  // When the stream may be written again.
  tensor::Event send_activations(base::View stream);
  // From `free` on the gradient of the stream may arrive there; the event: it is there.
  tensor::Event await_gradients(base::View stream, const tensor::Event& free);
  void take_gradients(const tensor::Event& arrived);
  void send_gradients(base::View stream);
  // How long compute has waited in here so far; part of StoreContext::wait_seconds, and on a GPU 0 like it.
  double wait_seconds() const { return wait_seconds_; }

 private:
  void join(const tensor::Event& event);
  comm::Neighbours& neighbours_;
  params::StoreContext& context_;
  base::View landing_, departing_;
  tensor::Event landing_free_, landed_, departed_;
  double wait_seconds_ = 0;
};

}  // namespace trainyard::engine
