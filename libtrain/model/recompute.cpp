// recompute(block): the decorator.
#include "libtrain/model/recompute.h"

#include <cstring>
#include <utility>

namespace trainyard::model {

namespace {

void copy(const base::View& from, const base::View& to) {
  TRAINYARD_ASSERT(from.dense() && to.dense() && from.bytes() == to.bytes(), "copy of {} to {} bytes", from.bytes(), to.bytes());
  std::memcpy(to.data, from.data, static_cast<std::size_t>(from.bytes()));
}

class RecomputeBlock : public Block {
 public:
  explicit RecomputeBlock(std::unique_ptr<Block> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  std::vector<plan::Use> uses() const override { return inner_->uses(); }
  std::vector<plan::Unit> declares() const override { return inner_->declares(); }

  void forward(Step& step, Flow& flow, Saved& saved) override {
    if (step.mode == Mode::evaluate) return inner_->forward(step, flow, saved);
    copy(flow.main, saved.push(flow.main.dtype, {flow.main.rows(), flow.main.cols()}));
    const auto kept = saved.size();
    inner_->forward(step, flow, saved);
    while (saved.size() > kept) saved.pop();
  }

  void backward(Step& step, Flow& flow, Saved& saved) override {
    tensor::ArenaScope scope(step.exec.scratch());
    Flow again = flow;
    again.main = step.exec.scratch().allocate(flow.main.dtype, {flow.main.rows(), flow.main.cols()});
    copy(saved.pop(), again.main);
    inner_->forward(step, again, saved);
    inner_->backward(step, flow, saved);
  }

 private:
  std::unique_ptr<Block> inner_;
};

}  // namespace

std::unique_ptr<Block> recompute(std::unique_ptr<Block> inner) { return std::make_unique<RecomputeBlock>(std::move(inner)); }

}  // namespace trainyard::model
