// Tests pipeline stages whose messages are device memory: over NCCL on streams, and over MPI staged through the host.
// The environment names the libraries; 77 without one.
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/nccl.h"
#include "libtrain/comm/neighbours.h"
#include "libtrain/comm/staged.h"
#include "libtrain/tensor/gpu.h"
#include "tests/comm/pipeline.h"

namespace trainyard::comm {
namespace {

using plan::Axis;
using plan::Topology;
using Views = NeighboursOptions::Views;

MpiRuntime* runtime = nullptr;
int device = 0;

void pass_through(const GroupFactory& between, NeighboursOptions options, pipeline::Shape shape,
                  pipeline::Receives receives) {
  options.device = device;
  shape.stages = runtime->size(), shape.stage = runtime->rank();
  const auto compute = tensor::Exec::gpu(device, nullptr);
  Neighbours neighbours(between, Topology({{Axis::pipe, runtime->size()}}), runtime->rank(), options);
  pipeline::run(neighbours, *compute, shape, receives, pipeline::random_delays(runtime->rank()));
  std::uint64_t sent = 0, expected = 0;
  for (const auto* ledger : neighbours.ledgers())
    for (const auto& [name, traffic] : ledger->totals()) sent += traffic.sent_bytes;
  const auto each = 8 * static_cast<std::uint64_t>(shape.elements * shape.micro_batches);
  if (options.ends == NeighboursOptions::Ends::open)
    expected = each * ((neighbours.has_next() ? 1 : 0) + (neighbours.has_previous() ? 1 : 0));
  else
    expected =
        each * static_cast<std::uint64_t>(2 * shape.chunks - (shape.stage == 0 || shape.stage == shape.stages - 1));
  EXPECT_EQ(sent, expected);
}

TEST(neighbours_gpu, staged) {
  if (runtime->size() == 1) GTEST_SKIP() << "one stage has no neighbours";
  const GroupFactory between = [mpi = runtime->concurrent_factory()](const std::string& name,
                                                                     const std::vector<int>& ranks) {
    return staged(mpi(name, ranks));
  };
  for (const auto receives : {pipeline::Receives::when_needed, pipeline::Receives::ahead})
    for (const std::int64_t elements : {10, 100000})
      pass_through(between, {NeighboursOptions::Ends::open, Views::staged}, {1, 0, 3, 1, elements}, receives);
  pass_through(between, {NeighboursOptions::Ends::ring, Views::staged}, {1, 0, 4, 2, 1000}, pipeline::Receives::ahead);
}

// A call of the stand-in is over when it returns. So messages are small there, since MPI sends small ones without
// waiting for the receiver, and no receive is issued early.
TEST(neighbours_gpu, nccl) {
  if (runtime->size() == 1) GTEST_SKIP() << "one stage has no neighbours";
  const bool emulated = std::string(tensor::gpu_module().runtime->name) == "emulated";
  if (!emulated && tensor::gpu_module().runtime->device_count() < runtime->size())
    GTEST_SKIP() << "NCCL wants a GPU for each rank";
  const GroupFactory between = [](const std::string& name, const std::vector<int>& ranks) {
    const auto host = runtime->split(name, ranks);
    return make_nccl(name, device, *host);
  };
  const std::int64_t elements = emulated ? 100 : 1000000;
  const auto receives = emulated ? pipeline::Receives::when_needed : pipeline::Receives::ahead;
  pass_through(between, {NeighboursOptions::Ends::open, Views::device}, {1, 0, 3, 1, elements}, receives);
  pass_through(between, {NeighboursOptions::Ends::ring, Views::device}, {1, 0, 4, 2, elements}, receives);
}

}  // namespace
}  // namespace trainyard::comm

int main(int argc, char** argv) {
  using namespace trainyard;
  if (!tensor::gpu_available() || !comm::nccl_available()) {
    std::puts("skipped: no GPU module with a device, or no NCCL");
    return 77;
  }
  comm::MpiRuntime mpi;
  comm::runtime = &mpi;
  comm::device = mpi.rank() % tensor::gpu_module().runtime->device_count();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
