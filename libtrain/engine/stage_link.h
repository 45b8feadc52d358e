// StageLink: what a pipeline stage receives from the neighbouring stages, and sends to them.
#pragma once

#include "libtrain/comm/neighbours.h"
#include "libtrain/model/block.h"
#include "libtrain/params/rank_execs.h"
#include "libtrain/plan/schedule/stage_messages.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>
#include <vector>

namespace trainyard::engine {

// Messages are hidden states and their gradients, and behind them those of the encoder's output, where it passes a
// boundary (plan::StageMessages). Activations arrive in a buffer of their own and are copied from there, so that the
// next message may arrive while a micro-batch is computed. Gradients arrive directly in the flow: in the hidden states
// whose output was sent, and in the sum of the gradients of the encoder's output. They leave from a copy, so that the
// flow is free at once. The compute thread makes all calls, in the order of a list of actions
// (plan/schedule/schedule.h). Waits of compute count as exposed communication.
class StageLink {
 public:
  struct Ends {  // of a chunk (virtual stage) of the rank
    plan::StageMessages before, behind;
  };
  // Takes plan::message_buffer_bytes from `activations`.
  StageLink(comm::Neighbours& neighbours, params::RankExecs& execs, tensor::Arena& activations,
            std::vector<Ends> chunks, std::int64_t hidden, plan::Pass pass);

  void await_activations(int chunk);  // from now on the next message may arrive, once the one before was taken
  void take_activations(int chunk, const model::Flow& flow);
  // Returns the event after which the flow may be written again.
  tensor::Event send_activations(int chunk, const model::Flow& flow);
  // After `free` the gradients may arrive in the flow. Returns the event of their arrival.
  tensor::Event await_gradients(int chunk, const model::Flow& flow, const tensor::Event& free);
  void take_gradients(const tensor::Event& arrived);
  void send_gradients(int chunk, const model::Flow& flow);
  // How long compute has waited in this link so far. It is a part of RankExecs::wait_seconds; on a GPU both are 0.
  double wait_seconds() const { return wait_seconds_; }

 private:
  using Tensors = std::vector<plan::StageMessages::Tensor>;
  // The tensors of a message, one after the other in a buffer.
  std::vector<base::View> in(base::View buffer, const Tensors& tensors) const;
  const Ends& ends(int chunk) const { return base::at(chunks_, chunk); }
  void join(const tensor::Event& event);
  comm::Neighbours& neighbours_;
  params::RankExecs& execs_;
  std::vector<Ends> chunks_;
  std::int64_t hidden_;
  base::View landing_, departing_;  // bytes
  tensor::Event landing_free_, landed_, departed_;
  double wait_seconds_ = 0;
};

}  // namespace trainyard::engine
