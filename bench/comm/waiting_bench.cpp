// The cost of a message between pipeline stages when the waiting rank sleeps, compared with the library's own wait:
// mpirun -n 2 bench_comm_waiting. A row is the median of some messages of rank 0, each sent after `pause`, while rank 1
// waits. It is the time from the later call of the two ranks until both are done. Both kinds of wait take turns.
#include "libtrain/comm/communicator.h"
#include "libtrain/comm/mpi.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>
#include <vector>

using namespace trainyard;

namespace {

double largest(double own) {
  double all = 0;
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Message {
  double seconds = 0, receiver_processor_seconds = 0;
};

Message send_after(double pause, comm::Communicator& pair, base::View view) {
  static const auto exec = tensor::Exec::caller(nullptr, 1);
  const bool sends = pair.rank() == 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double before = processor_seconds();
  if (sends) std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  const double begin = MPI_Wtime();
  const comm::Transfer transfer{sends ? comm::Transfer::Kind::send : comm::Transfer::Kind::receive, 1 - pair.rank(),
                                view};
  pair.exchange(*exec, {&transfer, 1});
  const double end = MPI_Wtime(), taken = processor_seconds() - before;
  return {largest(end) - largest(begin), largest(sends ? 0 : taken)};
}

}  // namespace

int main() {
  comm::MpiRuntime mpi;
  const std::unique_ptr<comm::Communicator> pairs[] = {mpi.factory()("busy", {0, 1}),
                                                       mpi.concurrent_factory()("asleep", {0, 1})};
  if (mpi.rank() == 0) std::printf("%12s %10s %12s %12s %8s\n", "bytes", "pause s", "busy us", "asleep us", "ratio");
  for (const double pause : {0.0, 0.02})
    for (const std::int64_t bytes : {std::int64_t{64}, std::int64_t{1} << 20, std::int64_t{64} << 20}) {
      std::vector<std::uint8_t> data(static_cast<std::size_t>(bytes), 1);
      std::vector<double> seconds[2];
      for (int round = 0; round < 25; ++round)
        for (int i = 0; i < 2; ++i)
          seconds[i].push_back(send_after(pause, *pairs[i], base::View::of(data.data(), {bytes})).seconds);
      for (auto& s : seconds) std::nth_element(s.begin(), s.begin() + 12, s.end());
      if (mpi.rank() == 0)
        std::printf("%12lld %10g %12.1f %12.1f %8.2f\n", static_cast<long long>(bytes), pause, 1e6 * seconds[0][12],
                    1e6 * seconds[1][12], seconds[1][12] / seconds[0][12]);
    }
  std::uint8_t word = 0;
  for (int i = 0; i < 2; ++i) {
    const double taken = send_after(2, *pairs[i], base::View::of(&word, {1})).receiver_processor_seconds;
    if (mpi.rank() == 0)
      std::printf("processor time of 2 s of waiting, %s: %.3f s\n", i == 0 ? "busy" : "asleep", taken);
  }
}
