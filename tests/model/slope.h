// The slope of a loss along one direction through all parameters of a model: by its gradients, and by differences.
#pragma once

#include "tests/model/small_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace trainyard::test {

// Compares the gradients of one pass with the fourth-order difference of the loss, in f64.
inline void expect_slope_of_the_loss(PlainStore& store, Runner& runner, const Batch& batch, const std::string& what) {
  runner.train(store, batch);
  std::vector<std::vector<double>> direction;
  double slope = 0;
  std::uint64_t seed = 3;
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u) {
    direction.emplace_back(store.master[u].size(), 0.0);
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p)
      for (std::int64_t i = 0; i < store.flat_groups[u].parameters[p].count(); ++i) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        const double x = static_cast<double>(seed >> 33) * 0x1p-30 - 1;
        direction[u][static_cast<std::size_t>(store.layouts[u].offsets[p] + i)] = x;
        slope += x * store.gradient_of(static_cast<int>(u), static_cast<int>(p), i);
      }
  }
  const auto start = store.master;
  const auto loss_at = [&](double step) {
    for (std::size_t u = 0; u < start.size(); ++u)
      for (std::size_t i = 0; i < start[u].size(); ++i) store.master[u][i] = start[u][i] + step * direction[u][i];
    store.publish();
    return runner.train(store, batch).loss_sum;
  };
  const double h = 1e-5;
  const double numeric = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
  EXPECT_NEAR(slope, numeric, 1e-6 * (1 + std::abs(numeric))) << what;
}

}  // namespace trainyard::test
