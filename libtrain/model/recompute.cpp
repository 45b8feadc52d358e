// The decorators, and the store that lets the second forward and the backward share one lease.
#include "libtrain/model/recompute.h"

#include "libtrain/model/offloaded_inputs.h"

#include <list>
#include <utility>

namespace trainyard::model {

namespace {

// Leases each occurrence from the store below once, at first demand, and holds the lease for its own lifetime.
// Gradients pass through. So a block that runs twice still leases in the order that the store expects.
class HeldStore : public params::ParameterStore {
 public:
  explicit HeldStore(params::ParameterStore& below) : below_(below) {}

 protected:
  void acquire(plan::Occurrence occurrence) override {
    for (const auto& l : leases_)
      if (l.occurrence == occurrence) return;
    leases_.push_back({occurrence, below_.lease(occurrence)});
  }
  void give_back(plan::Occurrence) override {}
  base::View weight(plan::Occurrence occurrence, int index) override {
    return find(leases_, occurrence).lent.weight(index);
  }
  void open(plan::Occurrence occurrence, int source) override {
    grads_.push_back({occurrence, below_.grads(occurrence, source)});
  }
  base::View gradient(plan::Occurrence occurrence, int, int index) override {
    return find(grads_, occurrence).lent.gradient(index);
  }
  bool wanted(plan::Occurrence occurrence, int) override { return find(grads_, occurrence).lent.wanted(); }
  void commit(plan::Occurrence occurrence, int) override {
    find(grads_, occurrence).lent.commit();
    grads_.remove_if([&](const auto& e) { return e.occurrence == occurrence; });  // the next source's may follow
  }

 private:
  template <class T> struct Entry {
    plan::Occurrence occurrence;
    T lent;
  };
  template <class T> static Entry<T>& find(std::list<Entry<T>>& entries, plan::Occurrence occurrence) {
    for (auto& e : entries)
      if (e.occurrence == occurrence) return e;
    base::invariant_failed(__FILE__, __LINE__, "occurrence is open",
                           fmt::format("flat group {} occurrence {}", occurrence.flat_group, occurrence.index));
  }
  params::ParameterStore& below_;
  std::list<Entry<params::Lease>> leases_;
  std::list<Entry<params::Grads>> grads_;
};

class RecomputeBlock : public Block {
 public:
  RecomputeBlock(std::unique_ptr<Block> inner, std::int64_t layer) : inner_(std::move(inner)), layer_(layer) {}
  std::string name() const override { return inner_->name(); }

  void forward(Step& step, Flow& flow, Saved& saved) override {
    if (step.pass == plan::Pass::train) {
      if (const auto extent = extent_of(step); extent >= 0) step.inputs->write(step.exec, extent, flow.main);
      else tensor::copy(step.exec, flow.main, saved.push(flow.main.dtype, {flow.main.rows(), flow.main.cols()}));
    }
    const Saved::Passing passing(saved);
    const auto kept = saved.size();
    inner_->forward(step, flow, saved);
    while (saved.size() > kept) saved.pop();
  }

  // The input stays where it is until the end; the first forward needed as much memory.
  void backward(Step& step, Flow& flow, Saved& saved) override {
    Flow again = flow;
    const auto extent = extent_of(step);
    again.main = extent >= 0 ? step.inputs->take(extent, flow.main) : saved.top();
    HeldStore held(*step.store);
    auto inner = step;
    inner.store = &held;
    {
      const Saved::Passing passing(saved);
      inner.output = Output::unread;
      inner_->forward(inner, again, saved);
      inner.output = Output::read;
      inner_->backward(inner, flow, saved);
    }
    if (extent >= 0) step.inputs->release();
    else saved.pop();
    step.loss_sum = inner.loss_sum;
    step.target_count = inner.target_count;
  }

 private:
  // Of its input elsewhere; -1: it is on the stack. An empty micro-batch has no input.
  int extent_of(const Step& step) const {
    if (step.inputs == nullptr || step.micro.empty()) return -1;
    return step.inputs->plan().extent(step.chunk, layer_, step.slot);
  }
  std::unique_ptr<Block> inner_;
  std::int64_t layer_;
};

class SelectiveBlock : public Block {
 public:
  explicit SelectiveBlock(std::unique_ptr<Block> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  void forward(Step& step, Flow& flow, Saved& saved) override { run(&Block::forward, step, flow, saved); }
  void backward(Step& step, Flow& flow, Saved& saved) override { run(&Block::backward, step, flow, saved); }

 private:
  void run(void (Block::*pass)(Step&, Flow&, Saved&), Step& step, Flow& flow, Saved& saved) {
    const auto before = std::exchange(step.recompute, plan::Recompute::selective);
    ((*inner_).*pass)(step, flow, saved);
    step.recompute = before;
  }
  std::unique_ptr<Block> inner_;
};

}  // namespace

std::unique_ptr<Block> recompute_selectively(std::unique_ptr<Block> inner) {
  return std::make_unique<SelectiveBlock>(std::move(inner));
}

std::unique_ptr<Block> recompute(std::unique_ptr<Block> inner, std::int64_t layer) {
  return std::make_unique<RecomputeBlock>(std::move(inner), layer);
}

}  // namespace trainyard::model
