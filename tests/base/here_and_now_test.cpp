// Tests what the system reports about this process.
#include "libtrain/base/here_and_now.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <sys/mman.h>
#include <unistd.h>

namespace trainyard {
namespace {

TEST(PageFaults, EachPageOfFreshMemoryIsOneAtItsFirstTouch) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  constexpr std::size_t pages = 300;
  void* const map = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  madvise(map, pages * page, MADV_NOHUGEPAGE);
  const auto touch = [&] {
    const auto before = base::page_faults();
    for (std::size_t i = 0; i < pages; ++i) static_cast<volatile char*>(map)[i * page] = 1;
    return base::page_faults() - before;
  };
  const auto first = touch(), second = touch();
  EXPECT_GE(first, static_cast<std::int64_t>(pages));
  EXPECT_LT(second, 30);
  munmap(map, pages * page);
}

}  // namespace
}  // namespace trainyard
