// Tests arenas: a stack of aligned memory with a high-water mark that never grows. It is on the host, or with
// TRAINYARD_TEST_DEVICE=cuda on the device of a GPU module.
#include "libtrain/tensor/arena.h"
#include "libtrain/base/error.h"
#include "tests/model/test_place.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace trainyard::tensor {
namespace {

constexpr auto most = std::numeric_limits<std::int64_t>::max();

Arena make(std::int64_t bytes, Category category = Category::workspace) {
  return Arena(category, bytes, test::test_device());
}
std::int64_t distance(const void* from, const void* to) {
  return static_cast<const char*>(to) - static_cast<const char*>(from);
}

std::string refusal(Arena& arena, std::int64_t bytes) {
  try {
    arena.allocate_bytes(bytes);
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "";
}

TEST(Arena, CapacityIsRoundedUpToTheAlignment) {
  for (const auto& [asked, got] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 0}, {1, 64}, {63, 64}, {64, 64}, {65, 128}, {1000, 1024}, {1024, 1024}}) {
    const auto arena = make(asked, Category::optimizer);
    EXPECT_EQ(arena.capacity_bytes(), got) << asked;
    EXPECT_EQ(arena.used_bytes(), 0);
    EXPECT_EQ(arena.peak_bytes(), 0);
    EXPECT_EQ(arena.category(), Category::optimizer);
    EXPECT_EQ(arena.device(), test::test_device());
  }
  EXPECT_THROW(make(-1), std::logic_error);
}

// Parts for micro-batches in flight: the oldest one is released first.
TEST(Arena, PartsAreStacksOfTheirOwn) {
  auto whole = make(1000, Category::activations);
  {
    Arena first(whole, 320), second(whole, 300);
    EXPECT_EQ(first.capacity_bytes(), 320);
    EXPECT_EQ(second.category(), Category::activations);
    EXPECT_EQ(second.device(), test::test_device());
    EXPECT_EQ(whole.used_bytes(), 640);
    EXPECT_EQ(whole.peak_bytes(), 0);
    const auto* const a = first.allocate_bytes(100);
    const auto* const b = second.allocate_bytes(200);
    EXPECT_EQ(distance(a, b), 320);
    first.release(0);
    EXPECT_EQ(first.allocate_bytes(256), a);
    EXPECT_EQ(whole.peak_bytes(), 256 + 256);
    EXPECT_THROW(first.allocate_bytes(65), std::logic_error);
    EXPECT_EQ(distance(a, whole.allocate_bytes(64)), 640);
    EXPECT_EQ(whole.peak_bytes(), 256 + 256 + 64);
    whole.release(640);
    EXPECT_THROW(whole.release(576), std::logic_error);
    EXPECT_THROW(Arena(whole, 1000), std::logic_error);
    whole.allocate_bytes(64);
    EXPECT_THROW(Arena(whole, 64), std::logic_error);  // only at the beginning
  }
  EXPECT_EQ(whole.peak_bytes(), 256 + 256 + 64);
}

// Whatever the sizes are, every allocation begins at a multiple of 64 bytes, right behind the one before it.
TEST(Arena, AllocationsAreAlignedAndBackToBack) {
  auto arena = make(1 << 16);
  const auto* const begin = arena.allocate_bytes(0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin) % 64, 0u);
  std::int64_t used = 0;
  for (const std::int64_t bytes : {1, 64, 63, 65, 2, 4096, 127, 128, 1}) {
    EXPECT_EQ(distance(begin, arena.allocate_bytes(bytes)), used) << bytes;
    used += (bytes + 63) / 64 * 64;
    EXPECT_EQ(arena.used_bytes(), used) << bytes;
    EXPECT_EQ(arena.peak_bytes(), used) << bytes;
  }
}

TEST(Arena, AViewHasShapeTypeAndPlace) {
  auto arena = make(1024);
  const auto a = arena.allocate(base::DType::bf16, {3, 5});
  EXPECT_EQ(a.dtype, base::DType::bf16);
  EXPECT_EQ(a.device, test::test_device());
  EXPECT_EQ(a.rows(), 3);
  EXPECT_EQ(a.cols(), 5);
  EXPECT_TRUE(a.dense());
  EXPECT_EQ(arena.used_bytes(), 64);
  const auto b = arena.allocate(base::DType::f64, {10});
  EXPECT_EQ(distance(a.data, b.data), 64);
  EXPECT_EQ(arena.used_bytes(), 64 + 128);
}

// Two allocations share no byte, and the whole capacity can be written.
TEST(Arena, AllOfItIsMemory) {
  auto arena = make(4096);
  const auto exec = test::test_exec(nullptr, 1);
  const auto first = arena.allocate(base::DType::f32, {512}), second = arena.allocate(base::DType::f32, {512});
  EXPECT_EQ(arena.used_bytes(), arena.capacity_bytes());
  std::vector<float> ones(512, 1.0f), twos(512, 2.0f), back(512);
  copy(*exec, base::View::of(ones.data(), {512}), first);
  copy(*exec, base::View::of(twos.data(), {512}), second);
  copy(*exec, first, base::View::of(back.data(), {512}));
  exec->synchronize();
  EXPECT_EQ(back, ones);
  copy(*exec, second, base::View::of(back.data(), {512}));
  exec->synchronize();
  EXPECT_EQ(back, twos);
}

TEST(Arena, WhatIsMadeZeroIsThatAndNoMore) {
  constexpr std::int64_t bytes = 20 << 20;
  Arena arena(Category::optimizer, bytes);
  auto* memory = static_cast<unsigned char*>(arena.allocate_bytes(bytes));
  const std::vector<std::pair<std::int64_t, std::int64_t>> ranges{{0, bytes},         {64, 0},
                                                                  {64, 128},          {4096, 1 << 20},
                                                                  {100, 9 << 20},     {(4 << 20) - 4, 8},
                                                                  {2 << 20, 4 << 20}, {bytes - (3 << 20), 3 << 20}};
  for (const auto& [begin, count] : ranges) {
    std::memset(memory, 0xFF, bytes);
    clear_untouched(base::View(memory + begin, base::DType::u8, {count}));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < bytes; ++i) wrong += memory[i] != (i >= begin && i < begin + count ? 0 : 0xFF);
    EXPECT_EQ(wrong, 0) << count << " from " << begin;
  }
}

TEST(Arena, WhatIsMadeZeroIsNotTouched) {
  constexpr std::int64_t bytes = 32 << 20, page = 4096;
  Arena arena(Category::optimizer, bytes);
  auto* memory = static_cast<char*>(arena.allocate_bytes(bytes));
  clear_untouched(base::View(memory, base::DType::u8, {bytes}));
  std::vector<unsigned char> resident(bytes / page);
  ASSERT_EQ(::mincore(memory, bytes, resident.data()), 0);
  std::int64_t pages = 0;
  for (const auto flag : resident) pages += flag & 1;
  EXPECT_LE(pages * page, 4 << 20);  // a huge page at each end
}

TEST(Arena, ReleaseGivesBackWhatCameAfterTheMark) {
  auto arena = make(1024);
  const auto* const a = arena.allocate_bytes(100);
  const auto outer = arena.mark();
  const auto* const b = arena.allocate_bytes(10);
  const auto inner = arena.mark();
  const auto* const c = arena.allocate_bytes(1);
  EXPECT_EQ(arena.used_bytes(), 128 + 64 + 64);
  arena.release(inner);
  EXPECT_EQ(arena.allocate_bytes(5), c);
  arena.release(inner);
  arena.release(inner);  // releasing again does nothing
  arena.release(outer);
  EXPECT_EQ(arena.used_bytes(), 128);
  EXPECT_EQ(arena.allocate_bytes(300), b);
  arena.release(outer);
  arena.release(0);  // past every mark in between
  EXPECT_EQ(arena.used_bytes(), 0);
  EXPECT_EQ(arena.allocate_bytes(1), a);
}

TEST(Arena, OnlyAMarkBelowIsReleased) {
  auto arena = make(1024);
  arena.allocate_bytes(64);
  const auto above = arena.mark();
  arena.release(0);
  for (const std::int64_t mark : {above, std::int64_t{-64}, std::int64_t{4096}, most})
    EXPECT_THROW(arena.release(mark), std::logic_error) << mark;
  arena.allocate_bytes(128);
  EXPECT_THROW(arena.release(63), std::logic_error) << "no mark: the next allocation would not be aligned";
  EXPECT_EQ(arena.used_bytes(), 128);
}

TEST(Arena, ThePeakIsTheMostThatWasEverInUse) {
  auto arena = make(1024);
  arena.allocate_bytes(256);
  {
    const ArenaScope scope(arena);
    arena.allocate_bytes(512);
  }
  EXPECT_EQ(arena.peak_bytes(), 768);
  arena.allocate_bytes(64);
  EXPECT_EQ(arena.used_bytes(), 320);
  EXPECT_EQ(arena.peak_bytes(), 768);
  arena.release(0);
  EXPECT_EQ(arena.peak_bytes(), 768);
  arena.allocate_bytes(1000);
  EXPECT_EQ(arena.peak_bytes(), 1024);
}

TEST(Arena, ScopesNestAndEndWithAFailure) {
  auto arena = make(1024);
  arena.allocate_bytes(64);
  {
    const ArenaScope outer(arena);
    arena.allocate_bytes(64);
    for (int turn = 0; turn < 100; ++turn) {  // far more in total than the capacity
      const ArenaScope inner(arena);
      arena.allocate_bytes(800);
      EXPECT_EQ(arena.used_bytes(), 128 + 832);
    }
    EXPECT_EQ(arena.used_bytes(), 128);
  }
  EXPECT_EQ(arena.used_bytes(), 64);
  EXPECT_THROW(
      {
        const ArenaScope scope(arena);
        arena.allocate_bytes(128);
        throw base::InputError("under way");
      },
      base::InputError);
  EXPECT_EQ(arena.used_bytes(), 64);
}

// A request beyond the plan is a defect. The sentence names the category, the capacity, the bytes in use and the
// request; the arena is unchanged.
TEST(Arena, NeverGrows) {
  auto arena = make(1000, Category::activations);
  arena.allocate_bytes(960);
  const auto words = refusal(arena, 65);
  for (const char* part : {"the plan gave activations 1024 bytes", "960 are in use", "65 more were asked for"})
    EXPECT_NE(words.find(part), std::string::npos) << words;
  EXPECT_EQ(arena.used_bytes(), 960);
  EXPECT_EQ(arena.peak_bytes(), 960);
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{1} << 40, most - 63, most})
    EXPECT_NE(refusal(arena, bytes), "") << bytes;
  EXPECT_EQ(arena.used_bytes(), 960);
  EXPECT_EQ(refusal(arena, 64), "");
  EXPECT_NE(refusal(arena, 1), "");
  EXPECT_THROW(arena.allocate(base::DType::f32, {1}), std::logic_error);
}

// An allocation of zero bytes needs no memory, in an empty arena and in a full one.
TEST(Arena, ZeroBytes) {
  auto empty = make(0), full = make(64);
  full.allocate_bytes(64);
  for (auto* arena : {&empty, &full}) {
    const auto used = arena->used_bytes();
    const auto v = arena->allocate(base::DType::f32, {0});
    EXPECT_EQ(v.count(), 0);
    arena->allocate_bytes(0);
    EXPECT_EQ(arena->used_bytes(), used);
    EXPECT_NE(refusal(*arena, 1), "");
  }
  EXPECT_EQ(empty.peak_bytes(), 0);
}

TEST(Arena, WhatCannotBeReservedSaysForWhatAndWhatToTry) {
  try {
    const auto arena = make(std::int64_t{1} << 60, Category::parameters);
    FAIL() << "a machine with an exabyte";
  } catch (const base::EnvironmentError& e) {
    EXPECT_NE(std::string(e.what()).find(fmt::format("cannot reserve {} bytes for parameters", std::int64_t{1} << 60)),
              std::string::npos)
        << e.what();
    EXPECT_NE(e.hint().find("--zero"), std::string::npos) << e.hint();
  }
}

TEST(Arena, EveryCategoryHasAName) {
  std::vector<std::string> names;
  for (int c = 0; c < category_count; ++c) {
    const std::string name = name_of(static_cast<Category>(c));
    EXPECT_GE(name.size(), 5u);
    for (const auto& other : names) EXPECT_NE(name, other);
    names.push_back(name);
  }
}

// The snapshot of a save, and states and buffers of offload, are host memory on every device; all else is where the
// rank computes.
TEST(Arena, ACategoryHasAPlace) {
  const base::Device gpu{base::DeviceKind::cuda, 1};
  base::CategoryBytes bytes;
  std::int64_t next = 1;
  for (const auto& entry : base::memory_categories) {
    const bool on_host = entry.category == Category::save_snapshot || entry.category == Category::offload_buffers ||
                         entry.category == Category::offloaded_states;
    EXPECT_EQ(base::device_of(entry.category, gpu), on_host ? base::Device{} : gpu) << entry.key;
    EXPECT_EQ(base::device_of(entry.category, {}), base::Device{}) << entry.key;
    bytes[entry.category] = next, next *= 10;
  }
  EXPECT_EQ(bytes.total(), 11'111'111'111);
  EXPECT_EQ(bytes.elsewhere(base::DeviceKind::cuda), 11'100'000'000);
  EXPECT_EQ(bytes.elsewhere(base::DeviceKind::cpu), 0);
}

}  // namespace
}  // namespace trainyard::tensor
