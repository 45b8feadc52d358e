// The stack of saved activations: a push allocates from the activations arena, a pop gives back.
#include "libtrain/model/saved.h"

namespace trainyard::model {

base::View Saved::push(base::DType dtype, std::initializer_list<std::int64_t> shape) {
  const auto mark = arena_.mark();
  entries_.push_back({arena_.allocate(dtype, shape), mark});
  return entries_.back().view;
}

base::View Saved::top() const {
  TRAINYARD_ASSERT(!entries_.empty(), "a block popped more than it pushed");
  return entries_.back().view;
}

base::View Saved::pop() {
  TRAINYARD_ASSERT(!entries_.empty(), "a block popped more than it pushed");
  const Entry entry = entries_.back();
  entries_.pop_back();
  arena_.release(entry.mark);
  return entry.view;
}

void Saved::clear() {
  if (entries_.empty()) return;
  arena_.release(entries_.front().mark);
  entries_.clear();
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
    set.views_.push_back(t.rows == 0 ? saved.push(t.dtype, {t.cols}) : saved.push(t.dtype, {t.rows, t.cols}));
  return set;
}

SavedSet SavedSet::pop(Saved& saved, std::vector<plan::SavedTensor> list) {
  SavedSet set;
  set.list_ = std::move(list);
  set.views_.resize(set.list_.size());
  for (std::size_t i = set.list_.size(); i-- > 0;) set.views_[i] = saved.pop();
  return set;
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
  set_ = SavedSet::push(saved, selective ? selective_order(list) : list);
}

}  // namespace trainyard::model
