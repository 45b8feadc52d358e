// StageLink: what a pipeline stage receives from the neighbouring stages, and sends to them.
#pragma once

#include "libtrain/comm/neighbours.h"
#include "libtrain/params/rank_execs.h"
#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>

namespace trainyard::engine {

// Messages are hidden states and their gradients: [token rows of this rank, hidden] in the working dtype. Activations
// arrive in a buffer of their own and are copied from there, so that the next message may arrive while a micro-batch is
// computed. Gradients arrive directly in `stream`, the hidden states whose output was sent. They leave from a copy, so
// that `stream` is free at once. The compute thread makes all calls, in the order of a list of actions
// (plan/schedule/schedule.h). Waits of compute count as exposed communication.
class StageLink {
 public:
  // hears_before: some virtual stage of the rank receives activations from another stage. Then the link takes memory
  // for two sets of hidden states from `activations`: one that arrives, and one whose gradients are sent. For
  // evaluation it takes only the first.
  StageLink(comm::Neighbours& neighbours, params::RankExecs& execs, base::DType working, tensor::Arena& activations,
            bool hears_before, std::int64_t rows, std::int64_t hidden, plan::Pass pass);

  void await_activations();  // from now on the next message may arrive, once the one before was taken
  void take_activations(base::View stream);
  // Returns the event after which `stream` may be written again.
  tensor::Event send_activations(base::View stream);
  // After `free` the gradient of the hidden states may arrive in `stream`. Returns the event of its arrival.
  tensor::Event await_gradients(base::View stream, const tensor::Event& free);
  void take_gradients(const tensor::Event& arrived);
  void send_gradients(base::View stream);
  // How long compute has waited in this link so far. It is a part of RankExecs::wait_seconds; on a GPU both are 0.
  double wait_seconds() const { return wait_seconds_; }

 private:
  void join(const tensor::Event& event);
  comm::Neighbours& neighbours_;
  params::RankExecs& execs_;
  base::View landing_, departing_;
  tensor::Event landing_free_, landed_, departed_;
  double wait_seconds_ = 0;
};

}  // namespace trainyard::engine
