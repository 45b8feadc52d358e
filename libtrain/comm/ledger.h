// Ledger: what one communicator has sent, by operation: calls and bytes; and the sequence number of the call under way.
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
  // Payload bytes that this rank sends to others, with n ranks, in integer arithmetic:
  //  all_gather, reduce_scatter  (n - 1) * shard
  //  all_reduce                  2 * (n - 1) * bytes / n
  //  broadcast                   bytes at the root, 0 elsewhere
  //  all_to_all, exchange        what goes to other ranks
  //  ordered_reduce_scatter      (n - 1) * shard if the rank contributes, else 0
  //  barrier                     0
  // all_gather, all_to_all, exchange and ordered_reduce_scatter are messages of our own, so their bytes are exact on
  // the wire.
  std::uint64_t sent_bytes = 0;
  double seconds = 0;  // inside the calls
};

// The thread that issues the calls writes the ledger; any thread may read it.
class Ledger {
 public:
  // begin() advances the sequence number and names the call under way. end() closes the call and traces it
  // (base/trace.h) from `from` to `to`, in steady seconds.
  void begin(const char* operation, std::uint64_t sent_bytes);
  void end(double from, double to);
  void reset();  // clears the totals, keeps the sequence number

  std::map<std::string, Traffic> totals() const;
  std::uint64_t sequence() const { return sequence_.load(); }
  bool in_call() const;  // is a call under way? Also while the device works on a call that has returned
  // `pending` returns whether the device is still busy with the last call. in_call() asks it, from any thread, once the
  // call itself has returned. Empty: calls are over when they return.
  void set_pending(std::function<bool()> pending);
  std::string operation() const;            // of the call that began last
  void set_group(const std::string& name);  // the group whose calls these are, as traces name it
  // While an alias is set (by a composed operation such as ordered_reduce_scatter), inner calls are entered under it.
  void set_alias(const char* name) { alias_ = name; }

 private:
  mutable std::mutex mutex_;
  struct Slot {
    std::string operation;
    const char* lasting = "";  // the same text, alive until the program ends
    Traffic traffic;
  };
  std::vector<Slot> slots_;  // one for each operation, a handful; found without making a string
  std::size_t current_ = 0;
  std::uint64_t current_bytes_ = 0;
  const char* group_ = "";
  const char* alias_ = nullptr;
  std::function<bool()> pending_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<bool> in_call_{false};
};

}  // namespace trainyard::comm
