// What a failing run says about its checkpoints: the newest good one, and a loss that had exploded before it.
#include "libtrain/engine/good_checkpoint.h"

#include "libtrain/checkpoint/rank_writer.h"
#include "tests/checkpoint/sample.h"
#include "tests/scratch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <initializer_list>
#include <string>

namespace trainyard::engine {
namespace {

TEST(GoodCheckpoint, IsSaidOfWhatWasReadBack) {
  const testing::Scratch scratch;
  const auto save = [&](std::int64_t step, double poison) {
    const auto s = sample::state(sample::gpt(), base::DType::f32, step);
    sample::Rank rank(s, 0, 1);
    reinterpret_cast<float*>(rank.memory[0].data())[5] = static_cast<float>(poison);
    checkpoint::write_rank(scratch.path, s, rank.shards, {});
    checkpoint::publish(scratch.path, s, plan::Topology({{plan::Axis::data, 1}}), 9);
  };
  EXPECT_EQ(good_checkpoint_sentence(scratch.path, 100), "there is no good checkpoint");
  save(10, 1), save(20, 2), save(30, std::nan(""));
  const auto text = good_checkpoint_sentence(scratch.path, 100);
  EXPECT_NE(text.find("step 30 cannot be used"), std::string::npos) << text;
  EXPECT_NE(text.find("step 20 was read back and is good"), std::string::npos) << text;
  EXPECT_NE(good_checkpoint_sentence(scratch.path, 19).find("step 10 was read back and is good"), std::string::npos);
  std::fstream file(scratch.path + "/step-00000020/rank-00000.h5", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8200).put('\x77');
  file.close();
  const auto later = good_checkpoint_sentence(scratch.path, 20);
  EXPECT_NE(later.find("step 20 is damaged"), std::string::npos) << later;
  EXPECT_NE(later.find("step 10 was read back and is good"), std::string::npos) << later;
  EXPECT_NE(good_checkpoint_sentence(scratch.path, 10, 1000).find("inspect --verify"), std::string::npos);
}

TEST(GoodCheckpoint, IsOfNoUseWhereTheLossHadExploded) {
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
}

}  // namespace
}  // namespace trainyard::engine
