// The hierarchical ordered reduction compared with the one over all ranks at once: mpirun -n N
// bench_comm_node_reduction NODE, with NODE neighbouring ranks in a node (2). bench/slow_network.sh makes nodes with
// slow links. A column is the median of several rounds in which both take turns, each timed on the slowest rank. Bytes
// are those of the gradients of a rank. Both must have the same sums.
#include "bench/comm/slowest_rank.h"
#include "libtrain/base/statistics.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/node_reduction.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace trainyard;
using bench::seconds_of;

int main(int argc, char** argv) {
  comm::MpiRuntime mpi;
  const auto exec = tensor::Exec::caller(nullptr, 1);
  const int ranks = mpi.size(), node = argc > 1 ? std::atoi(argv[1]) : 2;
  if (node < 2 || ranks % node != 0 || ranks == node) {
    if (mpi.rank() == 0) std::fprintf(stderr, "%d ranks are no nodes of %d\n", ranks, node);
    return 2;
  }
  std::vector<int> all, near, far;
  for (int r = 0; r < ranks; ++r) {
    all.push_back(r);
    if (r / node == mpi.rank() / node) near.push_back(r);
    if (r % node == mpi.rank() % node) far.push_back(r);
  }
  const auto flat = mpi.factory()("all", all), inside = mpi.factory()("inside", near),
             across = mpi.factory()("across", far);
  if (mpi.rank() == 0)
    std::printf("%d ranks in nodes of %d\n%12s %14s %14s %8s\n", ranks, node, "bytes", "at once ms", "by nodes ms",
                "ratio");
  for (const std::int64_t shard : {std::int64_t{1} << 16, std::int64_t{1} << 18, std::int64_t{1} << 20}) {
    const std::int64_t count = shard * ranks;
    std::vector<float> mine(static_cast<std::size_t>(count)), staging(mine.size()),
        one(static_cast<std::size_t>(shard)), two(one.size());
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = 1.0F / static_cast<float>(mpi.rank() + 1 + (i % 1000));
    const auto reduction = [&](std::vector<float>& sum) {
      return comm::OrderedReduction{.in = base::View::of(mine.data(), {count}),
                                    .staging = base::View::of(staging.data(), {count}),
                                    .sum = base::View::of(sum.data(), {shard}),
                                    .round = base::ReductionRound::first,
                                    .contributors = ranks};
    };
    const comm::ReductionHops hops{*inside, *across, std::int64_t{1} << 18};
    std::vector<double> seconds[2];
    for (int round = -1; round < 6; ++round)  // the first round warms up
      for (const int who : {round & 1, 1 - (round & 1)}) {
        const double taken = seconds_of([&] {
          if (who == 0) comm::ordered_reduce_scatter(*flat, *exec, reduction(one));
          else comm::ordered_reduce_scatter_range(hops, *exec, reduction(two), 0, shard);
        });
        if (round >= 0) seconds[who].push_back(taken);
      }
    if (one != two) {
      std::fprintf(stderr, "rank %d: the sums differ\n", mpi.rank());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const double times[2] = {base::median(seconds[0]), base::median(seconds[1])};
    if (mpi.rank() == 0)
      std::printf("%12lld %14.1f %14.1f %8.2f\n", static_cast<long long>(4 * count), times[0] * 1e3, times[1] * 1e3,
                  times[0] / times[1]);
  }
}
