// Communicator: collectives over one group of ranks. Four implementations: solo, threads, mpi and nccl. Two more pass
// the calls on to another communicator: staged (for views on a GPU) and delayed.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/reduction_order.h"
#include "libtrain/base/view.h"
#include "libtrain/comm/ledger.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trainyard::comm {

enum class Reduction { sum, max, min };

// What ordered_reduce_scatter (below) reads and writes, and which ranks contribute.
struct OrderedReduction {
  base::View in, staging, sum;
  base::ReductionRound round;
  int contributors;
  // By rank: its position in the reduction order. Empty: its rank. Read before the call returns.
  std::span<const int> reduction_positions = {};
  // Elements of a shard, if `sum` is only the range that a call is for (comm/segments.h). 0: `sum` is the shard.
  std::int64_t shard = 0;
  std::int64_t shard_elements() const { return shard > 0 ? shard : sum.count(); }
  base::View sum_of(std::int64_t first, std::int64_t count) const { return sum.elements(shard > 0 ? 0 : first, count); }
};

struct Transfer {  // one side of exchange(): a dense view sent to or received from a peer of the group
  enum class Kind { send, receive } kind;
  int peer;
  base::View view;
};

// Every call is collective over the group and ordered on the Exec. With a worker Exec a call returns at once, and the
// caller joins by exec.record(). All ranks issue the same calls in the same order. Views are dense, lie on the Exec's
// device, and must live until the work is done. Destructors free memory; they never communicate.
//
// Sizes must agree between the ranks. Where the implementation can see a mismatch (threads: always), the call throws
// CheckError on every rank. A call that is wrong by itself throws std::logic_error on the rank that makes it: a root or
// peer that is no rank of the group, another number of counts than ranks, or views of this rank whose sizes do not fit
// one another.
class Communicator {
 public:
  virtual ~Communicator() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& group() const { return group_; }  // the name in the ledger, e.g. "data"

  // In place. Dtypes f32, f64, i64, u64, i32 and narrow ones. A sum is in the library's order; narrow ones have no
  // other.
  virtual void all_reduce(tensor::Exec& exec, base::View inout, Reduction op) = 0;
  // out = size() equal shards in rank order. `in` may be this rank's own shard of `out`.
  virtual void all_gather(tensor::Exec& exec, base::View in, base::View out) = 0;
  // in = size() equal shards; out = this rank's shard of the sum, in the library's order. out must not alias in.
  virtual void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) = 0;
  // Counts are in elements, one per rank, and local to this rank. The parts of a view lie back to back in rank order.
  // send and receive must not alias.
  virtual void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts,
                          base::View receive, std::span<const std::int64_t> receive_counts) = 0;
  virtual void broadcast(tensor::Exec& exec, base::View inout, int root) = 0;
  // Posts all sends and receives together, so no order of ranks can deadlock. Views live until the work is done.
  virtual void exchange(tensor::Exec& exec, std::span<const Transfer> transfers) = 0;
  virtual void barrier(tensor::Exec& exec) = 0;

  // A communicator's own way to do what messages and an ordered sum would do. ordered_reduce_scatter and
  // comm/segments.h ask for it, for elements [first, first + count) of every shard. A communicator without one returns
  // false on every rank and does nothing.
  virtual bool add_contributions(tensor::Exec& /*exec*/, const OrderedReduction& /*reduction*/, std::int64_t /*first*/,
                                 std::int64_t /*count*/) {
    return false;
  }
  virtual bool gather_range(tensor::Exec& /*exec*/, base::View /*shard*/, base::View /*whole*/, std::int64_t /*first*/,
                            std::int64_t /*count*/) {
    return false;
  }

  virtual const Ledger& ledger() const { return ledger_; }
  virtual Ledger& ledger() { return ledger_; }

 protected:
  // What each implementation asks before it begins such a call; std::logic_error if it is wrong by itself.
  void require_rank(const char* operation, int rank) const {
    TRAINYARD_ASSERT(rank >= 0 && rank < size_, "{} in group {}: rank {} of {}", operation, group_, rank, size_);
  }
  void require_shards(const char* operation, const base::View& whole, const base::View& shard) const {
    TRAINYARD_ASSERT(whole.bytes() == size_ * shard.bytes(), "{} in group {}: {} bytes for {} shards of {}", operation,
                     group_, whole.bytes(), size_, shard.bytes());
  }
  void require_peers(std::span<const Transfer> transfers) const {
    for (const auto& t : transfers) require_rank("exchange", t.peer);
  }
  void require_counts(std::span<const std::int64_t> send, std::span<const std::int64_t> receive) const {
    const auto ranks = base::size(size_);
    TRAINYARD_ASSERT(send.size() == ranks && receive.size() == ranks, "all_to_all in group {}: {} and {} counts for {}",
                     group_, send.size(), receive.size(), ranks);
  }
  Communicator(std::string group, int rank, int size) : group_(std::move(group)), rank_(rank), size_(size) {
    ledger_.set_group(group_);
  }
  std::string group_;
  int rank_, size_;
  Ledger ledger_;
};

// Makes a communicator over some ranks of the world. The list ascends and includes the calling rank. All ranks of the
// list call it together, with the same name and list.
using GroupFactory =
    std::function<std::unique_ptr<Communicator>(const std::string& name, const std::vector<int>& ranks)>;

// The ordered reduction (decision 1): a reduce-scatter whose additions have a fixed order. `in` holds size() equal
// shards of f32 (or f64); shard p is this rank's contribution to its owner, rank p. The owner adds the contributions of
// ranks 0 .. contributors-1 to `sum`, its own shard of the same dtype. It adds them from left to right in ascending
// rank, with one rounding for each addition. `round` decides whether it overwrites `sum` (first) or adds to it (next).
// Ranks >= contributors send nothing: they are idle in an uneven last accumulation step, and their `in` may be empty.
//
// `staging` holds size() shards. `sum` may be this rank's own shard of `in`. Built on all_to_all and
// kernels::ordered_sum, and entered in the ledger as "ordered_reduce_scatter". Bytes sent per rank: contributing ?
// (size-1) * shard : 0. If `reduction_positions` is given, it holds the position of each rank in the reduction order.
// That position then replaces the rank in all of the above, except for which shard belongs to which rank.
void ordered_reduce_scatter(Communicator& comm, tensor::Exec& exec, const OrderedReduction& reduction);

}  // namespace trainyard::comm
