// When a finite loss means that a run has diverged.
#include "libtrain/engine/loss_watch.h"

#include "tests/scratch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

namespace trainyard::engine {
namespace {

// The steps, counted from 1, at which the watch speaks.
std::vector<int> warned(const std::vector<double>& losses) {
  LossWatch watch;
  std::vector<int> out;
  for (int step = 0; const double loss : losses)
    if (++step; !watch.look(loss).empty()) out.push_back(step);
  return out;
}
std::vector<double> first_and(double first, int n, double later) {
  std::vector<double> out(static_cast<std::size_t>(n) + 1, later);
  out[0] = first;
  return out;
}

TEST(LossWatch, WarnsOnceWhenTheMeanOfTenIsAFifthAboveTheFirst) {
  EXPECT_EQ(warned(first_and(5, 40, 6.2)), (std::vector{10}));  // 6.08 of ten, with the first
  EXPECT_EQ(warned(first_and(5, 40, 5.9)), std::vector<int>{});
  EXPECT_EQ(warned(first_and(5, 8, 50)), std::vector<int>{});    // nine losses are too few
  EXPECT_EQ(warned(first_and(1, 40, 1.4)), std::vector<int>{});  // noise of a small loss
  LossWatch watch;
  std::string text;
  for (int i = 0; i < 12; ++i) text += watch.look(i == 0 ? 5 : 500);
  EXPECT_NE(text.find("rose from 5, the first of this start, to 450.5, the mean of the last 10"), std::string::npos)
      << text;
  EXPECT_NE(text.find("--learning-rate"), std::string::npos) << text;
}

TEST(Explosion, NamesTheLastStepBeforeTheRise) {
  const testing::Scratch scratch;
  const auto metrics = [&](std::initializer_list<double> losses) {
    std::ofstream file(scratch.path + "/metrics.jsonl");
    for (int step = 0; const double loss : losses) file << fmt::format("{{\"step\":{},\"loss\":{}}}\n", ++step, loss);
    file.close();
    return explosion_sentence(scratch.path + "/metrics.jsonl");
  };
  EXPECT_EQ(explosion_sentence(scratch.path + "/none.jsonl"), "");
  EXPECT_EQ(metrics({5.5, 5.0, 5.4}), "");
  EXPECT_EQ(metrics({5.5, 5.0, 400, 1e11}),
            "the loss had risen before, from 5 at step 2 to 1e+11 at step 4: go back to step 2 or before");
  EXPECT_EQ(metrics({5.5, 1e11, 5}), "");  // it came back
  std::ofstream(scratch.path + "/metrics.jsonl", std::ios::app)
      << "{\"step\":4,\"loss\":400,\"outlier\":\"loss\",\"outlier_limit\":10}\n";
  EXPECT_EQ(explosion_sentence(scratch.path + "/metrics.jsonl"), "") << "a skipped step changed nothing";
  std::ofstream(scratch.path + "/metrics.jsonl", std::ios::app)
      << "{\"step\":5,\"gradient_norm\":0.0}\n{\"step\":6,\"loss\":5.6}\n";
  EXPECT_EQ(explosion_sentence(scratch.path + "/metrics.jsonl"), "") << "a step without targets has no loss";
}

}  // namespace
}  // namespace trainyard::engine
