// The decoder: blocks in order, then in reverse.
#include "libtrain/model/decoder.h"

#include "libtrain/base/index.h"
#include "libtrain/model/assemble.h"
#include "libtrain/model/head_block.h"
#include "libtrain/model/tensor_collectives.h"

#include <algorithm>

namespace trainyard::model {

Decoder::Decoder(const plan::ModelPart& part, const plan::Recomputation& recompute, int chunk)
    : model_(part.model), blocks_(assemble(part, recompute, chunk)) {}
Decoder::~Decoder() = default;

Flow Decoder::open(Step& step, Saved& saved) {
  const auto n = step.micro.batch() * step.micro.sequence();
  TRAINYARD_ASSERT(saved.empty(), "{} tensors left on the stack of saved activations", saved.size());
  TRAINYARD_ASSERT(step.micro.sequence() <= model_.context, "sequence {} is longer than the context {}",
                   step.micro.sequence(), model_.context);
  return {saved.push(step.dtype, {step.collectives->own_rows(n), model_.hidden}), {}};
}

void Decoder::run(std::int64_t index, Pass pass, Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  auto& block = *base::at(blocks_, index);
  (block.*pass)(step, flow, saved);
  if (observer) observer(block, flow.main);
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

void Decoder::close(Saved& saved) {
  saved.pop();
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
  for (auto& block : blocks_) block->forward(step, flow, saved);
  saved.pop();
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
  for (std::size_t i = 0; i + 1 < blocks_.size(); ++i) blocks_[i]->forward(step, flow, saved);
  head->logits(step, flow, saved, wanted);
  saved.pop();
}

}  // namespace trainyard::model
