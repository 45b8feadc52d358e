// Traffic for monitoring.sh: runs every operation that consists of messages of our own, then prints the bytes that the
// ledger announced. With an argument it only starts and ends, for which the library sends some messages itself.
#include "libtrain/comm/mpi.h"

#include <cstdio>
#include <vector>

using namespace trainyard;

int main(int argc, char**) {
  comm::MpiRuntime mpi;
  auto comm = mpi.communicator("data");
  auto exec = tensor::Exec::caller(nullptr, 1);
  const int n = mpi.size(), rank = mpi.rank();
  const std::int64_t shard = 1001;
  std::vector<float> in(static_cast<std::size_t>(n * shard), 1.0f), staging(in), sum(static_cast<std::size_t>(shard));
  const auto whole = base::View::of(in.data(), {n * shard}), staged = base::View::of(staging.data(), {n * shard}),
             own = base::View::of(sum.data(), {shard});
  if (argc > 1) return 0;
  comm::MpiRuntime::limit_message_bytes(1500);
  comm->all_gather(*exec, own, whole);
  comm::ordered_reduce_scatter(
      *comm, *exec,
      {.in = whole, .staging = staged, .sum = own, .round = base::ReductionRound::first, .contributors = n});
  comm::ordered_reduce_scatter(*comm, *exec,
                               {.in = rank < n - 1 ? whole : base::View{},
                                .staging = staged,
                                .sum = own,
                                .round = base::ReductionRound::next,
                                .contributors = n - 1});
  const std::vector<comm::Transfer> ring{
      {comm::Transfer::Kind::send, (rank + 1) % n, base::View::of(in.data(), {10 + rank})},
      {comm::Transfer::Kind::receive, (rank + n - 1) % n, base::View::of(sum.data(), {10 + (rank + n - 1) % n})}};
  comm->exchange(*exec, ring);
  std::uint64_t announced = 0;
  for (const auto& [name, traffic] : comm->ledger().totals()) announced += traffic.sent_bytes;
  std::printf("rank %d announced %llu\n", rank, static_cast<unsigned long long>(announced));
}
