// Communicator: collectives over one group of ranks. Four implementations: solo, threads, mpi and nccl.
#pragma once

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

// Elements [first, first + count) of the shards of an ordered reduction (below), and who contributes.
struct Contributions {
  base::View in, staging, sum;
  base::ReductionRound round;
  int contributors;
  std::int64_t first, count;
  std::span<const int> turns;  // read before the call returns
};

struct Transfer {  // one side of exchange(): a dense view sent to or received from a peer of the group
  enum class Kind { send, receive } kind;
  int peer;
  base::View view;
};

// Every call is collective over the group and ordered on the Exec: with a worker Exec it returns at once and the caller
// joins by exec.record(). All ranks issue the same calls in the same order. Views are dense, on the Exec's device, and
// must live until the work is done. Sizes must agree between the ranks; a mismatch is found and throws CheckError on
// every rank where the implementation can see it (threads: always). Destructors free; they never communicate.
class Communicator {
 public:
  virtual ~Communicator() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& group() const { return group_; }  // the name in the ledger, e.g. "data"

  // In place. dtypes f32, f64, i64, u64, i32, bf16 (bf16 only with the library's own order). Sum is in the library's
  // order.
  virtual void all_reduce(tensor::Exec& exec, base::View inout, Reduction op) = 0;
  // out = size() equal shards in rank order; in may be its own shard of out.
  virtual void all_gather(tensor::Exec& exec, base::View in, base::View out) = 0;
  // in = size() equal shards; out = own shard of the sum, in the library's order. out must not alias in.
  virtual void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) = 0;
  // Counts and displacements in elements, one per rank, local to this rank. send and receive must not alias.
  virtual void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts,
                          base::View receive, std::span<const std::int64_t> receive_counts) = 0;
  virtual void broadcast(tensor::Exec& exec, base::View inout, int root) = 0;
  // All sends and receives posted together, so no order of ranks can deadlock. Views live until done.
  virtual void exchange(tensor::Exec& exec, std::span<const Transfer> transfers) = 0;
  virtual void barrier(tensor::Exec& exec) = 0;

  // Ways of a communicator's own to do what messages and a fold do (ordered_reduce_scatter and comm/segments.h, which
  // ask); false on every rank, and nothing is done, where it has none.
  virtual bool add_contributions(tensor::Exec& /*exec*/, const Contributions& /*all*/) { return false; }
  virtual bool gather_range(tensor::Exec& /*exec*/, base::View /*shard*/, base::View /*whole*/, std::int64_t /*first*/,
                            std::int64_t /*count*/) {
    return false;
  }

  virtual const Ledger& ledger() const { return ledger_; }
  virtual Ledger& ledger() { return ledger_; }

 protected:
  Communicator(std::string group, int rank, int size) : group_(std::move(group)), rank_(rank), size_(size) {
    ledger_.set_group(group_);
  }
  std::string group_;
  int rank_, size_;
  Ledger ledger_;
};

// A communicator over some ranks of the world, ascending, the calling one among them; all of them ask for it together,
// with the same name and list.
using GroupFactory =
    std::function<std::unique_ptr<Communicator>(const std::string& name, const std::vector<int>& ranks)>;

// The ordered reduction (decision 1). `in` holds size() equal shards of f32 (or f64); shard p is this rank's
// contribution to the owner p. The owner adds the contributions of ranks 0 .. contributors-1 in ascending rank to `sum`
// (its own shard, same dtype), one rounding for each addition, in exactly that order; `round` says whether to what is
// there already. Ranks >= contributors send nothing (the ragged last round; their `in` may be empty). `staging` holds
// size() shards. `sum` may be this rank's own shard of `in`. Built on all_to_all and kernels::fold; entered in the
// ledger as "ordered_reduce_scatter". Bytes sent per rank: contributing ? (size-1) * shard : 0. Where `turns` has the
// turn of each rank, it stands for the rank in all of this but whose shards are whose.
void ordered_reduce_scatter(Communicator& comm, tensor::Exec& exec, base::View in, base::View staging, base::View sum,
                            base::ReductionRound round, int contributors, std::span<const int> turns = {});

}  // namespace trainyard::comm
