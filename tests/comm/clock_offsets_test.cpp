// Tests clocks that differ by a known time: the measured offset agrees with it within the stated uncertainty.
#include "libtrain/comm/clock_offsets.h"

#include "libtrain/base/here_and_now.h"
#include "libtrain/comm/threads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace trainyard::comm {
namespace {

class Shifted : public base::Clock {
 public:
  explicit Shifted(double by) : by_(by) {}
  double now() const override { return base::steady_seconds() + by_; }

 private:
  double by_;
};

TEST(clock_offsets, are_found_within_their_uncertainty_and_known_to_all) {
  for (const std::vector<double>& apart : {std::vector<double>{0}, {0, 1000}, {5, -3000, 1e-3, 7.25}}) {
    const auto ranks = static_cast<int>(apart.size());
    std::vector<std::vector<ClockOffset>> found(apart.size());
    run_ranks(ranks, [&](int rank, ThreadsWorld& world) {
      auto control = world.communicator(rank, "control");
      auto exec = tensor::Exec::worker("communication", nullptr);
      const auto me = static_cast<std::size_t>(rank);
      found[me] = clock_offsets(*control, *exec, Shifted(apart[me]));
    });
    const double now = base::steady_seconds();
    for (const auto& all : found) {
      ASSERT_EQ(all.size(), apart.size());
      EXPECT_EQ(all[0].offset, 0);
      EXPECT_EQ(all[0].uncertainty, 0);
      for (std::size_t r = 0; r < all.size(); ++r) {
        EXPECT_GE(all[r].uncertainty, 0);
        EXPECT_TRUE(std::isfinite(all[r].uncertainty));
        EXPECT_LE(std::abs(all[r].offset - (apart[r] - apart[0])), all[r].uncertainty + 1e-9) << "rank " << r;
        EXPECT_LE(all[r].at, now + apart[r]) << "by the rank's clock";
        EXPECT_EQ(all[r].offset, found[0][r].offset);
      }
    }
  }
}

}  // namespace
}  // namespace trainyard::comm
