// The decoder: blocks in order, then in reverse.
#include "libtrain/model/decoder.h"

#include "kernels/cast/cast.h"
#include "libtrain/base/index.h"
#include "libtrain/model/assemble.h"
#include "libtrain/model/head_block.h"
#include "libtrain/model/kv_cache.h"
#include "libtrain/model/tensor_collectives.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>

namespace trainyard::model {

Decoder::Decoder(const plan::ModelPart& part, const plan::Recomputation& recompute, int chunk)
    : model_(part.model), held_(plan::held_streams(part.model, base::at(part.chunks, chunk))),
      blocks_(assemble(part, recompute, chunk)) {
  for (const auto& segment : plan::segments(part))
    if (segment.chunk == chunk) of_source_.insert(of_source_.end(), base::size(segment.times), segment.is_of_source());
  bridge_ = std::count(of_source_.begin(), of_source_.end(), true);
}
Decoder::~Decoder() = default;

Flow Decoder::open(Step& step, Saved& saved) {
  TRAINYARD_ASSERT(saved.empty(), "{} tensors left on the stack of saved activations", saved.size());
  const auto push = [&](base::DType dtype, const MicroBatch& micro) {
    TRAINYARD_ASSERT(micro.sequence() <= model_.context, "sequence {} is longer than the context {}", micro.sequence(),
                     model_.context);
    return saved.push(dtype, {step.collectives->own_rows(micro.batch() * micro.sequence()), model_.hidden});
  };
  if (!plan::has_encoder(model_)) return {push(step.dtype, step.micro)};
  if (goes_on(step)) {
    Flow flow;
    flow.main = flow.target = push(step.dtype, step.micro);
    return flow;
  }
  TRAINYARD_ASSERT(step.micro.source != nullptr, "the model has an encoder, and the micro-batch no sources");
  Flow flow;
  if (held_.source) flow.source = push(step.dtype, *step.micro.source);
  if (held_.memory) flow.memory = push(step.dtype, *step.micro.source);
  if (held_.memory && step.pass == plan::Pass::train) {
    flow.memory_gradient = push(base::accumulation_of(step.dtype), *step.micro.source);
    kernels::fill(step.exec, flow.memory_gradient, 0);
  }
  if (held_.target) flow.target = push(step.dtype, step.micro);
  flow.main = held_.source ? flow.source : flow.target;
  return flow;
}

void Decoder::run_block(std::int64_t index, Pass pass, Step& step, Flow& flow, Saved& saved) {
  auto& block = *base::at(blocks_, index);
  if (of_source_[base::size(index)]) {
    auto of_source = step_of_source(step);
    return (block.*pass)(of_source, flow, saved);
  }
  step.memory = flow.memory, step.memory_gradient = flow.memory_gradient;
  (block.*pass)(step, flow, saved);
}

void Decoder::run(std::int64_t index, Pass pass, Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  run_block(index, pass, step, flow, saved);
  if (observer) observer(*base::at(blocks_, index), flow.main);
}

void Decoder::forward(Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  for (std::int64_t b = 0; b < std::ssize(blocks_); ++b) forward_block(b, step, flow, saved, observer);
}

void Decoder::forward_block(std::int64_t index, Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  run(index, &Block::forward, step, flow, saved, observer);
}

void Decoder::backward_block(std::int64_t index, Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  run(index, &Block::backward, step, flow, saved, observer);
  if (index == 0) close(saved);
}

void Decoder::in_reverse(Pass pass, Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  for (auto b = std::ssize(blocks_); b-- > 0;) run(b, pass, step, flow, saved, observer);
}

void Decoder::close(Saved& saved) const {
  for (int n = (held_.source ? 1 : 0) + (held_.target ? 1 : 0) + (held_.memory ? 2 : 0); n > 0; --n) saved.pop();
  TRAINYARD_ASSERT(saved.empty(), "{} tensors left on the stack of saved activations", saved.size());
}

void Decoder::backward(Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  in_reverse(&Block::backward, step, flow, saved, observer);
  close(saved);
}

void Decoder::input_gradients(Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  in_reverse(&Block::input_gradients, step, flow, saved, observer);
}

void Decoder::weight_gradients(Step& step, Flow& flow, Saved& saved) {
  saved.pop_kept();
  in_reverse(&Block::weight_gradients, step, flow, saved, {});
  close(saved);
}

void Decoder::evaluate(Step& step, Flow& flow, Saved& saved) {
  for (std::int64_t b = 0; b < std::ssize(blocks_); ++b) run_block(b, &Block::forward, step, flow, saved);
  saved.clear();
}

void Decoder::logits(Step& step, Saved& saved, std::int64_t at, base::View out) {
  std::vector<std::int64_t> rows;
  for (std::int64_t s = 0; s < step.micro.batch(); ++s) rows.push_back(s * step.micro.sequence() + at);
  logits(step, saved, {rows, out, {}});
}

void Decoder::logits(Step& step, Saved& saved, const LogitRows& wanted) {
  auto* head = dynamic_cast<HeadBlock*>(blocks_.back().get());
  if (head == nullptr)
    throw base::Unsupported("the model's last block gives no logits", "register a head derived from HeadBlock");
  auto flow = open(step, saved);
  for (std::int64_t b = goes_on(step) ? bridge_ : 0; b + 1 < std::ssize(blocks_); ++b)
    run_block(b, &Block::forward, step, flow, saved);
  head->logits(step, flow, saved, wanted);
  saved.clear();
}

}  // namespace trainyard::model
