// Stripes over folders: a pure function of extents and weights, in the shares of the weights.
#include "libtrain/base/storage_stripes.h"

#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace {

using namespace trainyard::base;
using trainyard::testing::refusal_of;

constexpr std::int64_t mib = std::int64_t{1} << 20;

std::vector<int> folders_of(const StorageStripes& stripes) {
  std::vector<int> folders;
  for (std::int64_t s = 0; s < stripes.stripes(); ++s) folders.push_back(stripes.place(s).folder);
  return folders;
}

}  // namespace

TEST(StorageStripes, GoToTheFolderThatIsFilledTheLeastForItsWeight) {
  const std::array<std::int64_t, 2> extents{4 * mib, 2 * mib};
  EXPECT_EQ(folders_of({extents, std::array{2.0, 1.0}}), (std::vector{0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(folders_of({extents, std::array{1.0, 1.0}}), (std::vector{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(folders_of({extents, std::array{0.25}}), (std::vector{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(folders_of({extents, std::array{1e-3, 4e-3}}), (std::vector{1, 1, 1, 0, 1, 1}));
}

TEST(StorageStripes, OfOneFolderLieOneBehindTheOther) {
  const std::array<std::int64_t, 4> extents{mib + 1, 0, 4097, 3 * mib};
  const StorageStripes stripes(extents, std::array{1.0});
  EXPECT_EQ(stripes.first_stripe(0), 0);
  EXPECT_EQ(stripes.first_stripe(2), 2);
  EXPECT_EQ(stripes.first_stripe(3), 3);
  std::vector<std::int64_t> offsets;
  for (std::int64_t s = 0; s < stripes.stripes(); ++s) offsets.push_back(stripes.place(s).offset);
  const auto third = mib + 4096 + 8192;
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, mib, mib + 4096, third, third + mib, third + 2 * mib}));
  EXPECT_EQ(stripes.folder_bytes(), std::vector<std::int64_t>{third + 3 * mib});
}

TEST(StorageStripes, HaveTheSharesOfTheWeightsUpToAFewStripes) {
  std::vector<std::int64_t> extents;
  for (int i = 0; i < 300; ++i) extents.push_back(i * 77'777 % (9 * mib));
  const std::vector<double> weights{3.5, 1, 0.7, 2.2};
  const StorageStripes stripes(extents, weights);
  std::int64_t all = 0;
  for (const auto bytes : extents) all += storage_bytes(bytes);
  const auto& of_folder = stripes.folder_bytes();
  EXPECT_EQ(std::accumulate(of_folder.begin(), of_folder.end(), std::int64_t{0}), all);
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_LE(std::abs(static_cast<double>(of_folder[i]) - static_cast<double>(all) * weights[i] / 7.4), 3.0 * mib)
        << i;
}

TEST(StorageStripes, RefuseWeightsThatAreNoShares) {
  const std::array<std::int64_t, 1> extents{mib};
  for (const double weight :
       {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(refusal_of([&] { StorageStripes(extents, std::array{1.0, weight}); }), "") << weight;
  EXPECT_NE(refusal_of([&] { StorageStripes(extents, std::span<const double>{}); }), "");
  EXPECT_NE(refusal_of([] { StorageStripes(std::array<std::int64_t, 1>{-1}, std::array{1.0}); }), "");
}
