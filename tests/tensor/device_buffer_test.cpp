// Tests that buffers of a GPU have an owner: they can be moved, and they are released once, when their owner ends.
#include "libtrain/tensor/device_buffer.h"

#include "libtrain/base/error.h"
#include "libtrain/tensor/exec.h"
#include "tests/gpu_main.h"

#include <string>
#include <utility>
#include <vector>

namespace trainyard::tensor {
namespace {

constexpr std::int64_t bytes = 1 << 12;

// Is this memory still there and pinned? A captured stream accepts copies only of memory that the device reaches
// directly.
bool reachable(void* memory) {
  const auto exec = Exec::gpu(0, nullptr);
  const auto& runtime = *gpu_module().runtime;
  require_gpu(runtime.begin_capture(exec->stream()), "capturing");
  const bool there = runtime.copy(memory, memory, bytes, exec->stream()) == nullptr;
  void* graph = nullptr;
  require_gpu(runtime.end_capture(exec->stream(), &graph), "capturing");
  runtime.drop_graph(graph);
  return there;
}

class device_buffer : public ::testing::Test {
  void SetUp() override {
    if (std::string(gpu_module().runtime->name) != "emulated")
      GTEST_SKIP() << "a device does not say whose memory is whose";
  }
};

template <class Buffer> void moves_and_goes(Buffer first) {
  void* const memory = first.data();
  EXPECT_TRUE(reachable(memory));
  Buffer second(std::move(first));
  EXPECT_EQ(second.data(), memory);
  Buffer third;
  EXPECT_FALSE(third);
  third = std::move(second);
  EXPECT_TRUE(third);
  EXPECT_EQ(third.data(), memory);
  EXPECT_TRUE(reachable(memory));
  third = {};
  EXPECT_FALSE(reachable(memory));
}

TEST_F(device_buffer, is_given_back_by_its_last_owner) {
  moves_and_goes(DeviceBuffer(0, bytes, "reserving memory for a test"));
}
TEST_F(device_buffer, so_is_a_pinned_one) { moves_and_goes(PinnedBuffer(bytes)); }

TEST_F(device_buffer, memory_of_the_caller_is_pinned_for_as_long_as_the_pinning_lives) {
  std::vector<char> memory(bytes);
  EXPECT_FALSE(reachable(memory.data()));
  {
    Pinning pinning;
    EXPECT_EQ(pinning.pin(memory.data(), bytes), nullptr);
    EXPECT_TRUE(reachable(memory.data()));
  }
  EXPECT_FALSE(reachable(memory.data()));
}

TEST_F(device_buffer, what_was_not_reserved_is_told_and_nothing_is_given_back) {
  const auto exec = Exec::gpu(0, nullptr);
  const auto& runtime = *gpu_module().runtime;
  require_gpu(runtime.begin_capture(exec->stream()), "capturing");  // a capture forbids reserving memory
  EXPECT_THROW(PinnedBuffer{bytes}, base::EnvironmentError);
  try {
    DeviceBuffer refused(0, bytes, "reserving memory for a test");
    ADD_FAILURE();
  } catch (const base::EnvironmentError& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("reserving memory for a test: ")) << e.what();
  }
  void* graph = nullptr;
  require_gpu(runtime.end_capture(exec->stream(), &graph), "capturing");
  runtime.drop_graph(graph);
}

}  // namespace
}  // namespace trainyard::tensor

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
