// A queue of segments.
#include "libtrain/params/transfers.h"

#include "libtrain/base/error.h"

#include <algorithm>
#include <utility>

namespace trainyard::params {

namespace {
constexpr std::int64_t crossings_of_a_layer = 4;  // tensor-parallel collectives in forward; backward has no fewer
}

void Transfers::issue(Queued& t) {
  t.segment(t.issued);
  if (++t.issued < t.segments) return;
  t.done = communication_.record();
  t.segment = {};
}

Transfers::Ticket Transfers::add(std::int64_t segments, std::function<void(std::int64_t)> segment) {
  const auto pace = (segments + crossings_of_a_layer - 1) / crossings_of_a_layer;
  under_way_.push_back({++last_, segments, pace, 0, std::move(segment), {}});
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
  std::int64_t left = 0;  // segments left of the pace of the first transfer that is not issued in full
  for (auto& t : under_way_) {
    if (t.issued == t.segments) continue;
    if (left == 0) left = t.pace;
    while (left > 0 && t.issued < t.segments) issue(t), --left;
    if (left == 0) return;
  }
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
