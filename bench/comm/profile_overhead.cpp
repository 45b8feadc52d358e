// What profile-comm adds to a call: its way of timing an all_reduce compared with a bare loop of MPI_Allreduce. Both
// take turns in one run: mpirun -n N bench_comm_profile_overhead. Both report the time of a call on the slowest rank. A
// round of the bare loop divides the time of all its calls; profile-comm's repeats are medians of single calls.
#include "libtrain/base/statistics.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/profile/collective.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <vector>

using namespace trainyard;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double slowest(double own) {
  double most = 0;
  MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

}  // namespace

int main() {
  comm::MpiRuntime mpi;
  auto comm = mpi.communicator("data");
  const auto exec = tensor::Exec::caller(nullptr, 1);
  if (mpi.rank() == 0)
    std::printf("%d ranks, all_reduce of f32\n%12s %14s %14s %10s %16s\n", mpi.size(), "bytes", "bare us", "profile us",
                "ratio", "90 % of rounds");
  for (const std::int64_t bytes :
       {std::int64_t{8}, std::int64_t{4096}, std::int64_t{1} << 20, std::int64_t{64} << 20}) {
    const profile::Buffers buffers({}, bytes);
    profile::Collective collective("all_reduce", *comm, *exec, base::DType::f32,
                                   profile::shape_of("all_reduce", mpi.size(), base::DType::f32, bytes), buffers);
    collective.clear();
    const int calls = bytes <= 4096 ? 2000 : bytes <= 1 << 20 ? 100 : 5, rounds = bytes <= 4096 ? 100 : 40;
    std::vector<double> bare, profiled, ratios, stamps(static_cast<std::size_t>(calls));
    for (int round = -1; round < rounds; ++round) {  // the first round warms up
      double mine[2] = {0, 0};
      for (const int who : {round & 1, 1 - (round & 1)}) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = now();
        if (who == 0) {
          for (int i = 0; i < calls; ++i)
            MPI_Allreduce(MPI_IN_PLACE, buffers.in, static_cast<int>(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        } else {
          for (auto& s : stamps) {  // the clock is read for every call, as profile-comm does
            collective.call();
            exec->synchronize();
            s = now();
          }
        }
        mine[who] = slowest((now() - begin) / calls);
      }
      if (round < 0) continue;
      bare.push_back(mine[0]), profiled.push_back(mine[1]), ratios.push_back(mine[1] / mine[0]);
    }
    const auto spread = base::prediction_interval(ratios);
    if (mpi.rank() == 0)
      std::printf("%12lld %14.3f %14.3f %10.3f %8.3f-%.3f\n", static_cast<long long>(bytes), base::median(bare) * 1e6,
                  base::median(profiled) * 1e6, base::median(ratios), spread.low, spread.high);
  }
}
