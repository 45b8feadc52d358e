// Tests agreement among ranks: texts of any length, sums and maxima, and a failure of one rank that all ranks throw.
#include "libtrain/base/error.h"
#include "tests/profile/known_link.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace trainyard {
namespace {

TEST(Ranks, TextsTravelWhole) {
  comm::run_ranks(3, [](int rank, comm::ThreadsWorld& world) {
    auto r = testing::ranks_of(rank, world);
    const std::string texts[] = {"", std::string("a\0b\n", 4), std::string(100000, 'x')};
    const auto all = profile::from_all(r, texts[rank]);
    ASSERT_EQ(all.size(), 3u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], texts[i]);
    EXPECT_EQ(profile::from_rank_zero(r, [&] { return std::string(rank == 0 ? "plan" : "ignored"); }), "plan");
    std::vector<double> v{static_cast<double>(rank), -1.0 - rank};
    profile::largest(r, v);
    EXPECT_EQ(v, (std::vector<double>{2, -1}));
    v = {1, static_cast<double>(rank)};
    profile::sums(r, v);
    EXPECT_EQ(v, (std::vector<double>{3, 3}));
  });
}

TEST(Ranks, OneFailureIsEverybodys) {
  comm::run_ranks(3, [](int rank, comm::ThreadsWorld& world) {
    auto r = testing::ranks_of(rank, world);
    profile::on_all(r, [] {});
    const auto caught = [&](const std::function<void()>& body) -> std::tuple<int, std::string, std::string> {
      try {
        profile::on_all(r, body);
      } catch (const profile::AgreedError& e) {
        return {static_cast<int>(e.code()), e.what(), e.hint()};
      }
      return {0, "", ""};
    };
    EXPECT_EQ(caught([&] {
                if (rank == 0) throw base::InputError("the plan\nis damaged", "make another");
              }),
              std::make_tuple(3, "the plan\nis damaged", "make another"));
    const auto second = caught([&] {
      if (rank == 2) throw base::EnvironmentError("no GPU", "look");
    });
    EXPECT_EQ(second, std::make_tuple(4, "rank 2: no GPU", "look"));
    const auto memory = caught([&] {
      if (rank == 1) throw std::bad_alloc();
    });
    EXPECT_EQ(std::get<0>(memory), 4);
    EXPECT_NE(std::get<1>(memory).find("out of memory"), std::string::npos);
    const auto defect = caught([&] {
      if (rank != 0) throw std::logic_error("impossible");
    });
    EXPECT_EQ(std::get<0>(defect), 1);
    EXPECT_NE(std::get<1>(defect).find("impossible"), std::string::npos);
  });
}

}  // namespace
}  // namespace trainyard
