// Two buffers for messages, and the events around them.
#include "libtrain/engine/stage_link.h"

#include "libtrain/base/aligned.h"

#include <algorithm>
#include <utility>

namespace trainyard::engine {

namespace {

// The tensors of a flow that pass a boundary.
std::vector<base::View> passing(const plan::StageMessages& messages, base::View main, base::View of_memory) {
  if (messages.has_memory()) return {main, of_memory};
  return {main};
}

}  // namespace

StageLink::StageLink(comm::Neighbours& neighbours, params::RankExecs& execs, tensor::Arena& activations,
                     std::vector<Ends> chunks, std::int64_t hidden, plan::Pass pass)
    : neighbours_(neighbours), execs_(execs), chunks_(std::move(chunks)), hidden_(hidden) {
  std::int64_t arriving = 0, leaving = 0;
  for (const auto& [before, behind] : chunks_) {
    arriving = std::max(arriving, plan::memory_bytes(before.activations()));
    leaving = std::max(leaving, plan::memory_bytes(before.gradients()));
  }
  if (arriving > 0) landing_ = activations.allocate(base::DType::u8, {arriving});
  if (leaving > 0 && pass == plan::Pass::train) departing_ = activations.allocate(base::DType::u8, {leaving});
}

std::vector<base::View> StageLink::in(base::View buffer, const Tensors& tensors) const {
  std::vector<base::View> out;
  auto* at = static_cast<char*>(buffer.data);
  for (const auto& [rows, dtype, bytes] : tensors) {
    out.emplace_back(at, dtype, std::initializer_list<std::int64_t>{rows, hidden_}, buffer.device);
    at += base::aligned(bytes);
  }
  return out;
}

void StageLink::join(const tensor::Event& event) {
  const double before = execs_.wait_seconds;
  execs_.join(event);
  wait_seconds_ += execs_.wait_seconds - before;
}

void StageLink::await_activations(int chunk) {
  const auto places = in(landing_, ends(chunk).before.activations());
  for (const auto& place : places) landed_ = neighbours_.receive_activations(place, landing_free_);
}

void StageLink::take_activations(int chunk, const model::Flow& flow) {
  join(landed_);
  const auto& messages = ends(chunk).before;
  const auto arrived = in(landing_, messages.activations()), into = passing(messages, flow.main, flow.memory);
  for (std::size_t i = 0; i < arrived.size(); ++i) tensor::copy(execs_.compute, arrived[i], into[i]);
  landing_free_ = execs_.compute.record();
}

tensor::Event StageLink::send_activations(int chunk, const model::Flow& flow) {
  const auto ready = execs_.compute.record();
  tensor::Event sent;
  const auto views = passing(ends(chunk).behind, flow.main, flow.memory);
  for (const auto& view : views) sent = neighbours_.send_activations(view, ready);
  return sent;
}

tensor::Event StageLink::await_gradients(int chunk, const model::Flow& flow, const tensor::Event& free) {
  tensor::Event arrived;
  const auto places = passing(ends(chunk).behind, flow.main, flow.memory_gradient);
  for (const auto& place : places) arrived = neighbours_.receive_gradients(place, free);
  return arrived;
}

void StageLink::take_gradients(const tensor::Event& arrived) { join(arrived); }

void StageLink::send_gradients(int chunk, const model::Flow& flow) {
  join(departed_);
  const auto& messages = ends(chunk).before;
  const auto leaving = in(departing_, messages.gradients()), from = passing(messages, flow.main, flow.memory_gradient);
  for (std::size_t i = 0; i < leaving.size(); ++i) tensor::copy(execs_.compute, from[i], leaving[i]);
  const auto ready = execs_.compute.record();
  for (const auto& view : leaving) departed_ = neighbours_.send_gradients(view, ready);
}

}  // namespace trainyard::engine
