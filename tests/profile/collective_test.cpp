// Tests the check behind "#wrong". Right results pass for every operation, size, dtype and world. One wrong element, or
// one addition out of order, is found.
#include "libtrain/profile/collective.h"
#include "tests/profile/known_link.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

namespace trainyard {
namespace {

using base::DType;

// The number of wrong elements on all ranks after `calls` calls.
std::int64_t wrong_of(int ranks, const std::string& operation, DType t, std::int64_t bytes, int calls,
                      const std::function<testing::Meddling(int)>& meddling = {}) {
  std::atomic<std::int64_t> wrong{0};
  comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& world) {
    auto r = testing::ranks_of(rank, world, meddling);
    std::vector<int> all;
    for (int i = 0; i < ranks; ++i) all.push_back(i);
    const auto comm = r.between("world", all);
    const auto size = profile::shape_of(operation, ranks, t, bytes);
    const profile::Buffers buffers({}, size.bytes);
    profile::Collective c(operation, *comm, *r.exec, t, size, buffers);
    c.prepare();
    for (int i = 0; i < calls; ++i) c.call();
    wrong += c.wrong();
  });
  return wrong;
}

TEST(Collective, SizesAreCountedAsNcclTestsCounts) {
  using profile::shape_of;
  const auto is = [](profile::Size s, std::int64_t bytes, std::int64_t count) {
    return s.bytes == bytes && s.count == count;
  };
  EXPECT_TRUE(is(shape_of("all_reduce", 3, DType::f32, 1024), 1024, 256));
  EXPECT_TRUE(is(shape_of("all_gather", 4, DType::f32, 1024), 1024, 64));
  EXPECT_TRUE(is(shape_of("all_gather", 3, DType::f32, 1024), 1020, 85));
  EXPECT_TRUE(is(shape_of("reduce_scatter", 4, DType::bf16, 1024), 1024, 128));
  EXPECT_TRUE(is(shape_of("all_to_all", 7, DType::f32, 8), 28, 1));  // at least one element for each rank
  EXPECT_TRUE(is(shape_of("broadcast", 7, DType::f32, 10), 8, 2));
  EXPECT_TRUE(is(shape_of("exchange", 7, DType::bf16, 1), 2, 1));
}

TEST(Collective, RightResultsAreRight) {
  for (const int ranks : {2, 3, 7})
    for (const auto& operation : profile::operation_names())
      for (const auto t : {DType::f32, DType::bf16})
        for (const std::int64_t bytes : {8, 1000, 70000}) {
          if (!profile::offers(operation, t)) continue;
          EXPECT_EQ(wrong_of(ranks, operation, t, bytes, 1), 0)
              << operation << " " << ranks << " ranks, " << bytes << " bytes";
          if (operation == "all_reduce") continue;
          EXPECT_EQ(wrong_of(ranks, operation, t, bytes, 3), 0) << operation;
        }
}

TEST(Collective, OneWrongElementIsSeen) {
  for (const auto& operation : profile::operation_names()) {
    // Changes one bit of the last byte that rank 1 receives. The all_to_all inside the ordered reduction is changed,
    // too; the lowest bit of a contribution may be lost in rounding, so a higher one is changed.
    const auto meddling = [&](int rank) {
      testing::Meddling m;
      if (rank == 1) m.after = [](base::View v) { static_cast<char*>(v.data)[v.bytes() - 1] ^= 0x40; };
      return m;
    };
    EXPECT_EQ(wrong_of(3, operation, DType::f32, 4096, 1, meddling), 1) << operation;
  }
}

TEST(Collective, NothingDoneIsSeen) {
  for (const auto& operation : profile::operation_names()) {
    const auto size = profile::shape_of(operation, 3, DType::f32, 4096);
    const auto right_by_chance = operation == "broadcast" ? 2 * size.count
                                 : operation == "all_gather" || operation == "all_to_all"
                                     ? 9 * size.count
                                     : 3 * size.count;  // the root has the result already
    EXPECT_EQ(wrong_of(3, operation, DType::f32, 4096, 0), right_by_chance) << operation;
  }
}

// Adds the same contributions in another order.
TEST(Collective, TheOrderOfAnOrderedReductionIsHeld) {
  const auto swapped = [](int) {
    testing::Meddling m;
    m.after = [](base::View v) {  // swaps the contributions of ranks 0 and 2 before they are added
      const auto piece = static_cast<std::size_t>(v.bytes() / 3);
      std::vector<char> first(piece);
      char* at = static_cast<char*>(v.data);
      std::memcpy(first.data(), at, piece);
      std::memcpy(at, at + 2 * piece, piece);
      std::memcpy(at + 2 * piece, first.data(), piece);
    };
    return m;
  };
  EXPECT_GT(wrong_of(3, "ordered_reduce_scatter", DType::f32, 40000, 1, swapped), 1000);
}

}  // namespace
}  // namespace trainyard
