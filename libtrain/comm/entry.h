// Entry: one call in the ledger, open for as long as the object lives; and the bytes that an operation sends by its
// textbook algorithm.
#pragma once

#include "libtrain/base/here_and_now.h"
#include "libtrain/comm/ledger.h"

#include <cstdint>

namespace trainyard::comm {

class Entry {
 public:
  Entry(Ledger& ledger, const char* operation, std::int64_t sent_bytes) : ledger_(ledger) {
    ledger.begin(operation, static_cast<std::uint64_t>(sent_bytes));
  }
  ~Entry() { ledger_.end(start_, base::steady_seconds()); }
  Entry(const Entry&) = delete;

 private:
  Ledger& ledger_;
  double start_ = base::steady_seconds();
};

// Ring all-reduce: reduce-scatter and all-gather, each (n - 1) shards of bytes / n (Patarasuk and Yuan 2009).
constexpr std::int64_t all_reduce_bytes(std::int64_t bytes, int n) { return 2 * (n - 1) * bytes / n; }
constexpr std::int64_t all_gather_bytes(std::int64_t shard_bytes, int n) { return (n - 1) * shard_bytes; }
constexpr std::int64_t reduce_scatter_bytes(std::int64_t shard_bytes, int n) { return (n - 1) * shard_bytes; }
constexpr std::int64_t broadcast_bytes(std::int64_t bytes, int n, int rank, int root) {
  return rank == root && n > 1 ? bytes : 0;
}

}  // namespace trainyard::comm
