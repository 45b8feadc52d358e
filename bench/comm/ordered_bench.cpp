// The ordered reduction against MPI_Reduce_scatter_block, the gather by messages against MPI_Allgather, and both
// against a copy of the bytes that they read and write at least: mpirun -n N bench_comm_ordered. Buffers are arenas, as
// in training. A column is the best of several rounds in which all take turns; busbw = (n - 1) * piece bytes / seconds,
// the bytes each rank must send. A reduction reads n pieces and writes one, as a copy of (n + 1) / 2 pieces does; a
// gather in place copies n - 1.
#include "bench/comm/slowest_rank.h"
#include "libtrain/comm/communicator.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/tensor/arena.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace trainyard;
using bench::seconds_of;

int main() {
  comm::MpiRuntime mpi;
  auto comm = mpi.communicator("data");
  auto exec = tensor::Exec::caller(nullptr, 1);
  const int n = mpi.size();
  if (mpi.rank() == 0)
    std::printf("%d ranks\n%12s %12s %12s %8s %8s %12s %12s %8s %8s\n", n, "piece bytes", "ordered GB/s",
                "library GB/s", "ratio", "of copy", "gather GB/s", "library GB/s", "ratio", "of copy");
  for (std::int64_t piece : {std::int64_t{256}, std::int64_t{4096}, std::int64_t{65536}, std::int64_t{1} << 18,
                             std::int64_t{1} << 20, std::int64_t{4} << 20}) {
    const auto bytes = static_cast<std::size_t>(4 * piece), all = bytes * static_cast<std::size_t>(n);
    tensor::Arena gradients(tensor::Category::gradients, static_cast<std::int64_t>(all)),
        memory(tensor::Category::workspace, static_cast<std::int64_t>(3 * all));
    const auto whole = gradients.allocate(base::DType::f32, {piece * n}),
               staged = memory.allocate(base::DType::f32, {piece * n}),
               sum = memory.allocate(base::DType::f32, {piece}),
               copied = memory.allocate(base::DType::f32, {piece * n});
    std::fill_n(whole.ptr<float>(), piece * n, 1.0f);
    std::fill_n(copied.ptr<float>(), piece * n, 1.0f);
    std::fill_n(staged.ptr<float>(), piece * n, 1.0f);
    const auto own = base::View::of(whole.ptr<float>() + mpi.rank() * piece, {piece});
    double best[6] = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
    const auto time = [&](int i, const auto& call) { best[i] = std::min(best[i], seconds_of(call)); };
    const int rounds = piece > 100000 ? 60 : 200, count = static_cast<int>(piece);
    for (int round = 0; round < rounds; ++round) {
      time(0, [&] { comm::ordered_reduce_scatter(*comm, *exec, whole, staged, sum, base::FoldRound::first, n); });
      time(1, [&] { MPI_Reduce_scatter_block(whole.data, sum.data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
      time(2, [&] { std::memcpy(copied.data, whole.data, bytes * static_cast<std::size_t>(n + 1) / 2); });
      time(3, [&] { comm->all_gather(*exec, own, whole); });
      time(4, [&] { MPI_Allgather(sum.data, count, MPI_FLOAT, staged.data, count, MPI_FLOAT, MPI_COMM_WORLD); });
      time(5, [&] { std::memcpy(copied.data, whole.data, bytes * static_cast<std::size_t>(n - 1)); });
    }
    const double gigabytes = 4e-9 * static_cast<double>(piece) * (n - 1);
    if (mpi.rank() == 0)
      std::printf("%12lld %12.3f %12.3f %8.2f %8.2f %12.3f %12.3f %8.2f %8.2f\n", static_cast<long long>(4 * piece),
                  gigabytes / best[0], gigabytes / best[1], best[1] / best[0], best[2] / best[0], gigabytes / best[3],
                  gigabytes / best[4], best[4] / best[3], best[5] / best[3]);
  }
}
