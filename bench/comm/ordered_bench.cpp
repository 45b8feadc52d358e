// The ordered reduction against MPI_Reduce_scatter_block, and the gather by messages against MPI_Allgather: mpirun -n N
// bench_comm_ordered. A column is the best of several rounds in which both take turns; busbw = (n - 1) * piece bytes /
// seconds, the bytes each rank must send.
#include "bench/comm/slowest_rank.h"
#include "libtrain/comm/communicator.h"
#include "libtrain/comm/mpi.h"

#include <algorithm>
#include <cstdio>
#include <vector>

using namespace trainyard;
using bench::seconds_of;

int main() {
  comm::MpiRuntime mpi;
  auto comm = mpi.communicator("data");
  auto exec = tensor::Exec::caller(nullptr, 1);
  const int n = mpi.size();
  if (mpi.rank() == 0)
    std::printf("%d ranks\n%12s %14s %14s %8s %14s %14s %8s\n", n, "piece bytes", "ordered GB/s", "library GB/s",
                "ratio", "gather GB/s", "library GB/s", "ratio");
  for (std::int64_t piece :
       {std::int64_t{256}, std::int64_t{4096}, std::int64_t{65536}, std::int64_t{1} << 20, std::int64_t{4} << 20}) {
    std::vector<float> in(static_cast<std::size_t>(piece * n), 1.0f), staging(in), sum(static_cast<std::size_t>(piece));
    const auto whole = base::View::of(in.data(), {piece * n}), staged = base::View::of(staging.data(), {piece * n}),
               own = base::View::of(sum.data(), {piece});
    double best[4] = {1e9, 1e9, 1e9, 1e9};
    const int rounds = piece > 100000 ? 8 : 200, count = static_cast<int>(piece);
    for (int round = 0; round < rounds; ++round) {
      best[0] = std::min(best[0], seconds_of([&] {
                           comm::ordered_reduce_scatter(*comm, *exec, whole, staged, own, base::FoldRound::first, n);
                         }));
      best[1] = std::min(best[1], seconds_of([&] {
                           MPI_Reduce_scatter_block(in.data(), sum.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                         }));
      best[2] = std::min(best[2], seconds_of([&] { comm->all_gather(*exec, own, whole); }));
      best[3] = std::min(best[3], seconds_of([&] {
                           MPI_Allgather(sum.data(), count, MPI_FLOAT, in.data(), count, MPI_FLOAT, MPI_COMM_WORLD);
                         }));
    }
    const double gigabytes = 4e-9 * static_cast<double>(piece) * (n - 1);
    if (mpi.rank() == 0)
      std::printf("%12lld %14.3f %14.3f %8.2f %14.3f %14.3f %8.2f\n", static_cast<long long>(4 * piece),
                  gigabytes / best[0], gigabytes / best[1], best[1] / best[0], gigabytes / best[2], gigabytes / best[3],
                  best[3] / best[2]);
  }
}
