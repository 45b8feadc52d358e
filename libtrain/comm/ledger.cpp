// The ledger's bookkeeping.
#include "libtrain/comm/ledger.h"

#include "libtrain/base/trace_kinds.h"

#include <utility>

namespace trainyard::comm {

void Ledger::begin(const char* operation, std::uint64_t sent_bytes) {
  std::lock_guard lock(mutex_);
  const char* name = alias_ != nullptr ? alias_ : operation;
  if (current_ >= slots_.size() || slots_[current_].operation != name) {
    current_ = 0;
    while (current_ < slots_.size() && slots_[current_].operation != name) ++current_;
    if (current_ == slots_.size()) slots_.push_back({name, base::lasting_text(name), {}});
  }
  auto& t = slots_[current_].traffic;
  ++t.calls;
  t.sent_bytes += sent_bytes;
  current_bytes_ = sent_bytes;
  ++sequence_;
  in_call_ = true;
}

void Ledger::end(double from, double to) {
  std::lock_guard lock(mutex_);
  auto& slot = slots_[current_];
  slot.traffic.seconds += to - from;
  in_call_ = false;
  base::trace(base::traced::call, slot.lasting, group_, from, to,
              {static_cast<std::int64_t>(current_bytes_), static_cast<std::int64_t>(sequence_.load())});
}

void Ledger::set_group(const std::string& name) {
  std::lock_guard lock(mutex_);
  group_ = base::lasting_text(name);
}

bool Ledger::in_call() const {
  if (in_call_.load()) return true;
  std::lock_guard lock(mutex_);
  return pending_ && pending_();
}

void Ledger::set_pending(std::function<bool()> pending) {
  std::lock_guard lock(mutex_);
  pending_ = std::move(pending);
}

void Ledger::reset() {
  std::lock_guard lock(mutex_);
  for (auto& s : slots_) s.traffic = {};
}

std::map<std::string, Traffic> Ledger::totals() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, Traffic> totals;
  for (const auto& s : slots_)
    if (s.traffic.calls > 0) totals.emplace(s.operation, s.traffic);
  return totals;
}

std::string Ledger::operation() const {
  std::lock_guard lock(mutex_);
  return current_ < slots_.size() ? slots_[current_].operation : "";
}

}  // namespace trainyard::comm
