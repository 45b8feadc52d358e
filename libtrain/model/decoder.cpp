// The decoder: blocks in order, then in reverse.
#include "libtrain/model/decoder.h"

#include "libtrain/model/assemble.h"
#include "libtrain/model/tensor_collectives.h"
#include "libtrain/model/head_block.h"

#include <algorithm>

namespace trainyard::model {

Decoder::Decoder(const plan::ModelPart& part, plan::Recompute recompute, int chunk)
    : model_(part.model), blocks_(assemble(part, recompute, chunk)) {
  if (part.experts.across() > 1) accesses_ = plan::accesses_of_blocks(part, chunk);
}
Decoder::~Decoder() = default;

Flow Decoder::open(Step& step, Saved& saved) {
  const auto n = step.micro.batch() * step.micro.sequence();
  TRAINYARD_ASSERT(saved.empty(), "{} tensors left on the stack of saved activations", saved.size());
  TRAINYARD_ASSERT(step.micro.sequence() <= model_.context, "sequence {} is longer than the context {}",
                   step.micro.sequence(), model_.context);
  return {saved.push(step.dtype, {step.collectives->own_rows(n), model_.hidden}), {}};
}

// For an empty micro-batch, blocks without experts for tokens of other ranks are skipped: the store replays their
// accesses.
bool Decoder::is_passed_over(std::size_t block, Step& step, Accesses accesses) const {
  if (!step.absent || blocks_[block]->works_for_others()) return false;
  step.store->pass_over(accesses_.at(block).*accesses);
  return true;
}

void Decoder::forward(Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (is_passed_over(b, step, &plan::AccessesOfBlock::forward)) continue;
    blocks_[b]->forward(step, flow, saved);
    if (observer && !step.absent) observer(*blocks_[b], flow.main);
  }
}

void Decoder::in_reverse(void (Block::*pass)(Step&, Flow&, Saved&), Accesses accesses, Step& step, Flow& flow,
                         Saved& saved, const Observer& observer) {
  for (auto b = blocks_.size(); b-- > 0;) {
    if (is_passed_over(b, step, accesses)) continue;
    ((*blocks_[b]).*pass)(step, flow, saved);
    if (observer && !step.absent) observer(*blocks_[b], flow.main);
  }
}

void Decoder::close(Saved& saved) {
  saved.pop();
  TRAINYARD_ASSERT(saved.empty(), "{} tensors left on the stack of saved activations", saved.size());
}

void Decoder::backward(Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  in_reverse(&Block::backward, &plan::AccessesOfBlock::backward, step, flow, saved, observer);
  close(saved);
}

void Decoder::input_gradients(Step& step, Flow& flow, Saved& saved, const Observer& observer) {
  in_reverse(&Block::input_gradients, &plan::AccessesOfBlock::input_gradients, step, flow, saved, observer);
}

void Decoder::weight_gradients(Step& step, Flow& flow, Saved& saved) {
  saved.pop_kept();
  in_reverse(&Block::weight_gradients, &plan::AccessesOfBlock::weight_gradients, step, flow, saved, {});
  close(saved);
}

void Decoder::evaluate(Step& step, Flow& flow, Saved& saved) {
  for (auto& block : blocks_) block->forward(step, flow, saved);
  saved.pop();
}

void Decoder::logits(Step& step, Saved& saved, std::int64_t at, base::View out) {
  auto* head = dynamic_cast<HeadBlock*>(blocks_.back().get());
  if (head == nullptr)
    throw base::Unsupported("the model's last block gives no logits", "register a head derived from HeadBlock");
  auto flow = open(step, saved);
  for (std::size_t i = 0; i + 1 < blocks_.size(); ++i) blocks_[i]->forward(step, flow, saved);
  head->logits(step, flow, saved, at, out);
  saved.pop();
}

}  // namespace trainyard::model
