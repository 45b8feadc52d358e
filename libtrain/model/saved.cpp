// The stack of saved activations: a push allocates from the activations arena, a pop releases.
#include "libtrain/model/saved.h"

namespace trainyard::model {

base::View Saved::push(base::DType dtype, std::initializer_list<std::int64_t> shape) {
  TRAINYARD_ASSERT(kept_above_ == 0, "{} tensors are kept for weight gradients: nothing is pushed above them",
                   kept_above_);
  auto& arena = passing_scopes_ > 0 ? passing_ : arena_;
  const auto mark = arena.mark();
  entries_.push_back({arena.allocate(dtype, shape), &arena, mark});
  return entries_.back().view;
}

std::size_t Saved::next() const {
  TRAINYARD_ASSERT(entries_.size() > kept_above_, "a block popped more than it pushed");
  return entries_.size() - 1 - kept_above_;
}

base::View Saved::top() const { return entries_[next()].view; }

base::View Saved::pop() {
  auto& entry = entries_[next()];
  const auto view = entry.view;
  entry.popped = true;
  if (kept_above_ > 0) ++kept_above_;
  else drop_popped();
  return view;
}

base::View Saved::keep() {
  const auto view = top();
  ++kept_above_;
  return view;
}

void Saved::pop_kept() {
  kept_above_ = 0;
  drop_popped();
}

void Saved::drop_popped() {
  while (!entries_.empty() && entries_.back().popped) {
    entries_.back().arena->release(entries_.back().mark);
    entries_.pop_back();
  }
}

void Saved::clear() {
  for (auto& entry : entries_) entry.popped = true;
  pop_kept();
}

void SavedSet::add(const SavedSet& more) {
  list_.insert(list_.end(), more.list_.begin(), more.list_.end());
  views_.insert(views_.end(), more.views_.begin(), more.views_.end());
}

SavedSet SavedSet::row_range(const std::vector<plan::SavedTensor>& list, std::int64_t first, std::int64_t rows) const {
  SavedSet out;
  for (const auto& t : list) {
    out.list_.push_back(t);
    out.views_.push_back((*this)[t.name].row_range(first, rows));
  }
  return out;
}

base::View SavedSet::find(std::string_view name) const {
  for (std::size_t i = 0; i < list_.size(); ++i)
    if (list_[i].name == name) return views_[i];
  return {};
}

base::View SavedSet::operator[](std::string_view name) const {
  const auto view = find(name);
  TRAINYARD_ASSERT(view.data != nullptr, "no saved tensor is called {}", name);
  return view;
}

SavedSet SavedSet::push(Saved& saved, std::vector<plan::SavedTensor> list) {
  SavedSet set;
  set.list_ = std::move(list);
  for (const auto& t : set.list_)
    set.views_.push_back(t.rows == plan::SavedTensor::one_dim ? saved.push(t.dtype, {t.cols})
                                                              : saved.push(t.dtype, {t.rows, t.cols}));
  return set;
}

SavedSet SavedSet::take(Saved& saved, std::vector<plan::SavedTensor> list, base::View (Saved::*one)()) {
  SavedSet set;
  set.list_ = std::move(list);
  set.views_.resize(set.list_.size());
  for (std::size_t i = set.list_.size(); i-- > 0;) set.views_[i] = (saved.*one)();
  return set;
}

SavedSet SavedSet::pop(Saved& saved, std::vector<plan::SavedTensor> list) {
  return take(saved, std::move(list), &Saved::pop);
}

SavedSet SavedSet::keep(Saved& saved, std::vector<plan::SavedTensor> list) {
  return take(saved, std::move(list), &Saved::keep);
}

SavedSet SavedSet::take_back(const Step& step, Saved& saved, std::vector<plan::SavedTensor> list) {
  if (step.recompute != plan::Recompute::selective) return pop(saved, std::move(list));
  {
    const Saved::Passing passing(saved);
    push(saved, plan::only(list, plan::Stays::unless_selective));
  }
  return pop(saved, selective_order(list));
}

std::vector<plan::SavedTensor> selective_order(const std::vector<plan::SavedTensor>& list) {
  auto all = plan::only(list, plan::Stays::always);
  for (const auto& t : plan::only(list, plan::Stays::unless_selective)) all.push_back(t);
  return all;
}

PassTensors::PassTensors(const std::vector<plan::SavedTensor>& list, const Step& step, Saved& saved)
    : saved_(saved), kept_(saved.size()) {
  const bool selective = step.recompute == plan::Recompute::selective;
  if (step.pass == plan::Pass::train) kept_ += selective ? plan::only(list, plan::Stays::always).size() : list.size();
  set_ = SavedSet::push(saved, selective ? plan::only(list, plan::Stays::always) : list);
  if (!selective) return;
  const Saved::Passing passing(saved);
  set_.add(SavedSet::push(saved, plan::only(list, plan::Stays::unless_selective)));
}

}  // namespace trainyard::model
