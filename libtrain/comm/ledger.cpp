// The ledger's bookkeeping.
#include "libtrain/comm/ledger.h"

#include <utility>

namespace trainyard::comm {

void Ledger::begin(const char* operation, std::uint64_t sent_bytes) {
  std::lock_guard lock(mutex_);
  current_ = alias_ != nullptr ? alias_ : operation;
  auto& t = totals_[current_];
  ++t.calls;
  t.sent_bytes += sent_bytes;
  ++sequence_;
  in_call_ = true;
}

void Ledger::end(double seconds) {
  std::lock_guard lock(mutex_);
  totals_[current_].seconds += seconds;
  in_call_ = false;
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
  totals_.clear();
}

std::map<std::string, Traffic> Ledger::totals() const {
  std::lock_guard lock(mutex_);
  return totals_;
}

std::string Ledger::operation() const {
  std::lock_guard lock(mutex_);
  return current_;
}

}  // namespace trainyard::comm
