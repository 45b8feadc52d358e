// Ledger: what one communicator has sent: operation, calls, bytes; and the sequence number of the call under way.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace trainyard::comm {

struct Traffic {
  std::uint64_t calls = 0;
  std::uint64_t sent_bytes = 0;  // payload that leaves this rank by the textbook ring / pairwise algorithm of the operation
  double seconds = 0;            // inside the call
};

// Written by the thread that issues the calls, read by any thread.
class Ledger {
 public:
  // begin() advances the sequence number and names the call under way; end() closes it.
  void begin(const char* operation, std::uint64_t sent_bytes);
  void end(double seconds);
  void reset();  // forgets the totals, keeps the sequence number

  std::map<std::string, Traffic> totals() const;
  std::uint64_t sequence() const { return sequence_.load(); }
  bool in_call() const { return in_call_.load(); }
  std::string operation() const;  // the last begun
  // While set (by a composed operation such as ordered_reduce_scatter), inner calls are entered under this name.
  void set_alias(const char* name) { alias_ = name; }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Traffic> totals_;
  std::string current_;
  const char* alias_ = nullptr;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<bool> in_call_{false};
};

}  // namespace trainyard::comm
