// A hierarchical all-to-all of equal parts (two hops) compared with the library's own (one hop): mpirun -n N
// bench_comm_node_hops NODE, with NODE neighbouring ranks in a node (2). A column is the median of several rounds in
// which both take turns, each timed on the slowest rank. Bytes are those of all parts of a rank. Both must deliver the
// same data.
#include "bench/comm/slowest_rank.h"
#include "libtrain/base/statistics.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/node_hops.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace trainyard;
using bench::seconds_of;

int main(int argc, char** argv) {
  comm::MpiRuntime mpi;
  const auto exec = tensor::Exec::caller(nullptr, 1);
  const int ranks = mpi.size(), node = argc > 1 ? std::atoi(argv[1]) : 2;
  if (node < 1 || ranks % node != 0) {
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
    std::printf("%d ranks in nodes of %d\n%12s %14s %14s %8s\n", ranks, node, "bytes", "one hop us", "two hops us",
                "ratio");
  for (const std::int64_t part : {std::int64_t{64}, std::int64_t{4096}, std::int64_t{65536}, std::int64_t{1} << 20}) {
    const std::int64_t count = part / 4 * ranks;
    std::vector<float> mine(static_cast<std::size_t>(count)), one(mine.size()), two(mine.size()), first(mine.size()),
        second(mine.size());
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<float>(mpi.rank() * 1000 + static_cast<int>(i));
    const auto view = [&](std::vector<float>& v) { return base::View::of(v.data(), {count}); };
    const auto bytes = [&](std::vector<float>& v) { return base::View(v.data(), base::DType::u8, {4 * count}); };
    const comm::NodeHops hops{*inside, *across, bytes(first), bytes(second)};
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), part / 4);
    std::vector<double> seconds[2];
    for (int round = -3; round < (part > 100000 ? 40 : 400); ++round)  // the first rounds warm up
      for (const int who : {round & 1, 1 - (round & 1)}) {
        const double taken = seconds_of([&] {
          if (who == 0) flat->all_to_all(*exec, view(mine), counts, view(one), counts);
          else comm::all_to_all(hops, *exec, view(mine), view(two));
        });
        if (round >= 0) seconds[who].push_back(taken);
      }
    if (one != two) {
      std::fprintf(stderr, "rank %d: two hops brought something else\n", mpi.rank());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const double times[2] = {base::median(seconds[0]), base::median(seconds[1])};
    if (mpi.rank() == 0)
      std::printf("%12lld %14.1f %14.1f %8.2f\n", static_cast<long long>(4 * count), times[0] * 1e6, times[1] * 1e6,
                  times[0] / times[1]);
  }
}
