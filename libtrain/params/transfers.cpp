// A queue of segments.
#include "libtrain/params/transfers.h"

#include "libtrain/base/error.h"

#include <algorithm>
#include <utility>

namespace trainyard::params {

namespace {
constexpr std::int64_t crossings_of_a_layer = 8;  // in forward 4; backward has more time to fill
}

void Transfers::issue(Transfer& t) {
  t.segment(t.issued);
  --waiting_;
  if (++t.issued < t.segments) return;
  t.done = communication_.record();
  t.segment = {};
}

Transfers::Ticket Transfers::add(std::int64_t segments, std::function<void(std::int64_t)> segment) {
  under_way_.push_back({++last_, segments, 0, std::move(segment), {}});
  waiting_ += segments;
  if (issue_ == Issue::at_once) issue_all();
  return last_;
}

tensor::Event Transfers::done(Ticket ticket) {
  const auto wanted =
      std::find_if(under_way_.begin(), under_way_.end(), [&](const auto& t) { return t.ticket == ticket; });
  if (wanted == under_way_.end()) return {};
  for (auto t = under_way_.begin(); t != std::next(wanted); ++t)
    while (t->issued < t->segments) issue(*t);
  auto event = wanted->done;
  under_way_.erase(wanted);
  return event;
}

void Transfers::let_some_follow() {
  auto now = (waiting_ + crossings_of_a_layer - 1) / crossings_of_a_layer;
  for (auto& t : under_way_)
    while (now > 0 && t.issued < t.segments) issue(t), --now;
}

void Transfers::finish() {
  issue_all();
  under_way_.clear();
}

void Transfers::issue_all() {
  for (auto& t : under_way_)
    while (t.issued < t.segments) issue(t);
}

}  // namespace trainyard::params
