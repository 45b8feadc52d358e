// Tests pipeline stages over MPI: one thread for each queue of messages, another for collectives, all at the same time.
#include "libtrain/base/here_and_now.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/neighbours.h"
#include "tests/comm/pipeline.h"

#include <sys/resource.h>

namespace trainyard::comm {
namespace {

using base::View;
using plan::Axis;
using plan::Topology;

MpiRuntime* runtime = nullptr;

// MPI sends messages of a few bytes at once, and large ones when the receiver has asked for them.
TEST(neighbours_mpi, one_forward_one_backward_beside_long_reductions) {
  const int replicas = runtime->size() % 2 == 0 ? 2 : 1, stages = runtime->size() / replicas;
  for (const auto& topology :
       {Topology({{Axis::pipe, runtime->size()}}), Topology({{Axis::pipe, stages}, {Axis::data, replicas}})})
    for (const std::int64_t elements : {10, 300000}) {
      const int rank = runtime->rank(), replica = topology.coordinate(rank, Axis::data);
      const auto compute = tensor::Exec::worker("compute", nullptr),
                 communication = tensor::Exec::worker("communication", nullptr);
      const auto data = runtime->split("data", topology.peers(rank, {Axis::data}));
      Neighbours neighbours(runtime->concurrent_factory(), topology, rank);
      std::vector<std::int64_t> sums(1000000, replica + 1);
      for (int i = 0; i < 20; ++i)
        data->all_reduce(*communication, View::of(sums.data(), {1000000}), i == 0 ? Reduction::sum : Reduction::max);
      const auto receives = elements == 10 ? pipeline::Receives::ahead : pipeline::Receives::when_needed;
      pipeline::run(neighbours, *compute,
                    {topology.size(Axis::pipe), topology.coordinate(rank, Axis::pipe), 3, 1, elements, 100 * replica},
                    receives, pipeline::random_delays(rank));
      communication->synchronize();
      const int n = topology.size(Axis::data);
      EXPECT_EQ(sums, std::vector<std::int64_t>(1000000, n * (n + 1) / 2));
    }
}

TEST(neighbours_mpi, chunks_go_round_the_ring) {
  const auto compute = tensor::Exec::worker("compute", nullptr);
  Neighbours neighbours(runtime->concurrent_factory(), Topology({{Axis::pipe, runtime->size()}}), runtime->rank(),
                        {NeighboursOptions::Ends::ring});
  pipeline::run(neighbours, *compute, {runtime->size(), runtime->rank(), 4, 2, 20000}, pipeline::Receives::ahead,
                pipeline::random_delays(runtime->rank()));
}

// How often this process has gone to sleep.
long naps() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_nvcsw;
}

// Receives are issued long before any message is sent: all ranks pass a barrier first. The receives sleep meanwhile,
// which MPI's own wait never does.
TEST(neighbours_mpi, a_receive_that_waits_holds_up_no_collective_and_sleeps) {
  const int rank = runtime->rank();
  const auto communication = tensor::Exec::worker("communication", nullptr);
  const auto control = runtime->communicator("control");
  Neighbours neighbours(runtime->concurrent_factory(), Topology({{Axis::pipe, runtime->size()}}), rank);
  std::vector<std::int64_t> in(10), back(10), out(10, rank);
  tensor::Event arrived, returned;
  if (neighbours.has_previous()) arrived = neighbours.receive_activations(View::of(in.data(), {10}), {});
  if (neighbours.has_next()) returned = neighbours.receive_gradients(View::of(back.data(), {10}), {});
  const auto before = naps();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_GT(naps() - before, 50);  // some hundreds on an idle machine
  control->barrier(*communication);
  communication->synchronize();
  EXPECT_TRUE(rank == 0 || !arrived.done());
  control->barrier(*communication);  // all ranks have looked
  communication->synchronize();
  if (neighbours.has_next()) neighbours.send_activations(View::of(out.data(), {10}), {}).wait();
  if (neighbours.has_previous()) neighbours.send_gradients(View::of(out.data(), {10}), {}).wait();
  arrived.wait();
  returned.wait();
  EXPECT_TRUE(rank == 0 || in == std::vector<std::int64_t>(10, rank - 1));
  EXPECT_TRUE(!neighbours.has_next() || back == std::vector<std::int64_t>(10, rank + 1));
}

}  // namespace
}  // namespace trainyard::comm

int main(int argc, char** argv) {
  trainyard::comm::MpiRuntime mpi;
  trainyard::comm::runtime = &mpi;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
