// Two buffers for messages, and the events around them.
#include "libtrain/engine/stage_link.h"

namespace trainyard::engine {

StageLink::StageLink(comm::Neighbours& neighbours, params::RankExecs& execs, base::DType working,
                     tensor::Arena& activations, bool hears_before, std::int64_t rows, std::int64_t hidden,
                     plan::Pass pass)
    : neighbours_(neighbours), execs_(execs) {
  if (!hears_before) return;
  landing_ = activations.allocate(working, {rows, hidden});
  if (pass == plan::Pass::train) departing_ = activations.allocate(working, {rows, hidden});
}

void StageLink::join(const tensor::Event& event) {
  const double before = execs_.wait_seconds;
  execs_.join(event);
  wait_seconds_ += execs_.wait_seconds - before;
}

void StageLink::await_activations() { landed_ = neighbours_.receive_activations(landing_, landing_free_); }

void StageLink::take_activations(base::View stream) {
  join(landed_);
  tensor::copy(execs_.compute, landing_, stream);
  landing_free_ = execs_.compute.record();
}

tensor::Event StageLink::send_activations(base::View stream) {
  return neighbours_.send_activations(stream, execs_.compute.record());
}

tensor::Event StageLink::await_gradients(base::View stream, const tensor::Event& free) {
  return neighbours_.receive_gradients(stream, free);
}

void StageLink::take_gradients(const tensor::Event& arrived) { join(arrived); }

void StageLink::send_gradients(base::View stream) {
  join(departed_);
  tensor::copy(execs_.compute, stream, departing_);
  departed_ = neighbours_.send_gradients(departing_, execs_.compute.record());
}

}  // namespace trainyard::engine
