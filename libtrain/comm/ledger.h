// Ledger: what one communicator has sent: operation, calls, bytes; and the sequence number of the call under way.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace trainyard::comm {

struct Traffic {
  std::uint64_t calls = 0;
  // Payload that leaves this rank (n ranks, integer bytes): all_gather, reduce_scatter (n - 1) * shard; all_reduce 2 *
  // (n - 1) * bytes / n; broadcast: bytes at the root, 0 elsewhere; all_to_all, exchange: what goes to others;
  // ordered_reduce_scatter: (n - 1) * shard where the rank contributes; barrier 0. all_gather, all_to_all, exchange and
  // ordered_reduce_scatter are messages of our own: exact on the wire.
  std::uint64_t sent_bytes = 0;
  double seconds = 0;  // inside the call
};

// Written by the thread that issues the calls, read by any thread.
class Ledger {
 public:
  // begin() advances the sequence number and names the call under way; end() closes it, and is traced (base/trace.h):
  // from when to when, in steady seconds.
  void begin(const char* operation, std::uint64_t sent_bytes);
  void end(double from, double to);
  void reset();  // forgets the totals, keeps the sequence number

  std::map<std::string, Traffic> totals() const;
  std::uint64_t sequence() const { return sequence_.load(); }
  bool in_call() const;  // also while the device works on a call that has returned
  // Asked by in_call(), from any thread, once the call itself is over: is the device still busy with it? Empty: calls
  // are over when they return.
  void set_pending(std::function<bool()> pending);
  std::string operation() const;            // the last begun
  void set_group(const std::string& name);  // whose calls they are, for traces
  // While set (by a composed operation such as ordered_reduce_scatter), inner calls are entered under this name.
  void set_alias(const char* name) { alias_ = name; }

 private:
  mutable std::mutex mutex_;
  struct Slot {
    std::string operation;
    const char* lasting = "";  // the same
    Traffic traffic;
  };
  std::vector<Slot> slots_;  // a handful: each operation once, found without making a string
  std::size_t current_ = 0;
  std::uint64_t current_bytes_ = 0;
  const char* group_ = "";
  const char* alias_ = nullptr;
  std::function<bool()> pending_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<bool> in_call_{false};
};

}  // namespace trainyard::comm
