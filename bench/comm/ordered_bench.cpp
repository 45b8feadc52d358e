// The ordered reduction compared with MPI_Reduce_scatter_block, and the gather with MPI_Allgather: mpirun -n N
// bench_comm_ordered. Both are also compared with a copy of the bytes that they read and write at least, within a rank
// and between ranks of one machine. Buffers are arenas, as in training. Each call reads what its rank has just written
// and has results of its own, because cache lines that another rank has read are written slowly. A column is the best
// of several rounds in which all take turns. busbw = (n - 1) * shard bytes / seconds, the bytes that each rank must
// send. A reduction reads n shards and writes one, like a copy of (n + 1) / 2 shards. A gather in place copies n - 1
// shards. Between ranks, a rank copies the n - 1 shards of other ranks out of shared memory and waits for no rank.
#include "bench/comm/slowest_rank.h"
#include "libtrain/comm/communicator.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/tensor/arena.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace trainyard;
using bench::seconds_of;

// A shard of each rank in shared memory, if the ranks are on one machine and MPI has such memory.
class SharedShards {
 public:
  explicit SharedShards(std::int64_t bytes) {
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int of_node = 0, of_world = 0;
    MPI_Comm_size(node, &of_node), MPI_Comm_size(MPI_COMM_WORLD, &of_world);
    char* own = nullptr;
    int made = of_node == of_world && MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, node, static_cast<void*>(&own),
                                                              &window_) == MPI_SUCCESS;
    MPI_Comm_free(&node);
    MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    for (int r = 0; r < of_world && made == 1; ++r) {
      MPI_Aint size = 0;
      int unit = 0;
      MPI_Win_shared_query(window_, r, &size, &unit, static_cast<void*>(&own));
      shards_.push_back(own);
    }
  }
  ~SharedShards() {
    if (seen()) MPI_Win_free(&window_);
  }
  SharedShards(const SharedShards&) = delete;
  bool seen() const { return !shards_.empty(); }
  char* of(int rank) const { return shards_[static_cast<std::size_t>(rank)]; }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<char*> shards_;
};

int main() {
  comm::MpiRuntime mpi;
  auto comm = mpi.communicator("data");
  auto exec = tensor::Exec::caller(nullptr, 1);
  const int n = mpi.size();
  if (mpi.rank() == 0)
    std::printf("%d ranks\n%12s %12s %12s %8s %8s %8s %12s %12s %8s %8s %8s\n", n, "piece bytes", "ordered GB/s",
                "library GB/s", "ratio", "of copy", "between", "gather GB/s", "library GB/s", "ratio", "of copy",
                "between");
  for (std::int64_t shard : {std::int64_t{256}, std::int64_t{4096}, std::int64_t{65536}, std::int64_t{1} << 18,
                             std::int64_t{1} << 20, std::int64_t{4} << 20}) {
    const auto bytes = static_cast<std::size_t>(4 * shard), all = bytes * static_cast<std::size_t>(n);
    tensor::Arena seen(tensor::Category::gradients, static_cast<std::int64_t>(2 * all)),
        memory(tensor::Category::workspace, static_cast<std::int64_t>(5 * all));
    const auto whole = seen.allocate(base::DType::f32, {shard * n}),
               gathered = seen.allocate(base::DType::f32, {shard * n});
    const auto shards = [&] { return memory.allocate(base::DType::f32, {shard * n}); };
    const auto staged = shards(), sum = memory.allocate(base::DType::f32, {shard}), copied = shards(), given = shards(),
               made = shards();
    const auto own = base::View::of(gathered.ptr<float>() + mpi.rank() * shard, {shard});
    const SharedShards shared(static_cast<std::int64_t>(bytes));
    double best[7] = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
    const auto time = [&](int i, const auto& call) { best[i] = std::min(best[i], seconds_of(call)); };
    const int rounds = shard > 100000 ? 60 : 200, count = static_cast<int>(shard);
    for (int round = 0; round < rounds; ++round) {
      const auto write = [&](base::View v) { std::fill_n(v.ptr<float>(), v.count(), static_cast<float>(round)); };
      write(whole);
      time(0, [&] {
        comm::ordered_reduce_scatter(
            *comm, *exec,
            {.in = whole, .staging = staged, .sum = sum, .round = base::ReductionRound::first, .contributors = n});
      });
      write(given);
      time(1, [&] { MPI_Reduce_scatter_block(given.data, made.data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
      write(given);
      time(2, [&] { std::memcpy(copied.data, given.data, bytes * static_cast<std::size_t>(n + 1) / 2); });
      write(own);
      time(3, [&] { comm->all_gather(*exec, own, gathered); });
      write(given);
      time(4, [&] { MPI_Allgather(given.data, count, MPI_FLOAT, made.data, count, MPI_FLOAT, MPI_COMM_WORLD); });
      write(given);
      time(5, [&] { std::memcpy(copied.data, given.data, bytes * static_cast<std::size_t>(n - 1)); });
      if (!shared.seen()) continue;
      std::memset(shared.of(mpi.rank()), round, bytes);
      time(6, [&] {
        for (int r = 1; r < n; ++r)
          std::memcpy(static_cast<char*>(copied.data) + bytes * static_cast<std::size_t>(r - 1),
                      shared.of((mpi.rank() + r) % n), bytes);
      });
    }
    const double gigabytes = 4e-9 * static_cast<double>(shard) * (n - 1);
    if (mpi.rank() == 0)
      std::printf("%12lld %12.3f %12.3f %8.2f %8.2f %8.2f %12.3f %12.3f %8.2f %8.2f %8.2f\n",
                  static_cast<long long>(4 * shard), gigabytes / best[0], gigabytes / best[1], best[1] / best[0],
                  best[2] / best[0], shared.seen() ? best[6] / best[0] : 0.0, gigabytes / best[3], gigabytes / best[4],
                  best[4] / best[3], best[5] / best[3], shared.seen() ? best[6] / best[3] : 0.0);
  }
}
