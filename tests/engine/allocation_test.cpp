// No heap allocation above 4 KiB inside a step after the second: every allocation of the process is seen by the malloc defined here.
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

constexpr std::size_t limit_bytes = 4096;
std::atomic<bool> watching{false};
std::atomic<std::int64_t> large{0}, largest{0}, seen{0};

void note(std::size_t bytes) {
  if (!watching.load(std::memory_order_relaxed)) return;
  ++seen;
  if (bytes <= limit_bytes) return;
  ++large;
  auto most = largest.load();
  while (static_cast<std::int64_t>(bytes) > most && !largest.compare_exchange_weak(most, static_cast<std::int64_t>(bytes))) {
  }
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) { note(bytes); return __libc_malloc(bytes); }
void* calloc(std::size_t n, std::size_t bytes) { note(n * bytes); return __libc_calloc(n, bytes); }
void* realloc(void* old, std::size_t bytes) { note(bytes); return __libc_realloc(old, bytes); }
void* memalign(std::size_t alignment, std::size_t bytes) { note(bytes); return __libc_memalign(alignment, bytes); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { note(bytes); return __libc_memalign(alignment, bytes); }
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  note(bytes);
  *out = __libc_memalign(alignment, bytes);
  return *out != nullptr ? 0 : ENOMEM;
}
}

namespace trainyard {
namespace {

using testing::Cut;
using testing::SmallRun;

// Watches from the end of step 2 to the end of the last step but one; at either end every rank is within a step of rank 0.
void expect_no_large_allocation(SmallRun& runs, const engine::RunConfig& config, const Cut& cut) {
  large = largest = seen = 0;
  const engine::RunListener listener{[&](const engine::StepMetrics& m, std::int64_t steps) {
                                       if (m.step == 2) watching = true;
                                       if (m.step == steps - 1) watching = false;
                                     },
                                     {}};
  runs.run(config, cut, listener);
  EXPECT_GT(seen, 0) << "nothing was watched";
  EXPECT_EQ(large, 0) << "the largest has " << largest << " bytes: " << cut.ranks << " ranks, ZeRO " << cut.zero << ", " << cut.dtype << ", " << config.model;
}

TEST(Allocation, TheWatchSeesLargeOnes) {
  large = 0;
  watching = true;
  std::vector<char> big(limit_bytes + 1);

  watching = false;
  EXPECT_EQ(large, 1) << static_cast<const void*>(big.data());
}

TEST(Allocation, NoneAbove4KiBInAStep) {
  SmallRun runs;
  int n = 0;
  for (const auto& model : {runs.gpt(), runs.llama()})
    for (int zero : {0, 1, 2, 3})
      for (int ranks : {1, 2, 3}) {
        auto c = runs.config(fmt::format("allocation-{}", n));
        c.model = model;
        c.steps = 6;
        c.fold = n % 2 == 0 ? 1 : 2;
        c.micro_batch = n % 4 < 2 ? 1 : 2;
        c.global_batch = 8 * c.micro_batch;
        c.document_mask = n % 3 == 0 ? "on" : "off";
        expect_no_large_allocation(runs, c, {ranks, zero, 2, n % 2 == 0 ? "bf16" : "f32", n % 5 == 0 ? "layers" : "none"});
        ++n;
      }
}

}  // namespace
}  // namespace trainyard
