// What a failing run says about its checkpoints: the newest good one.
#include "libtrain/engine/good_checkpoint.h"

#include "libtrain/checkpoint/rank_writer.h"
#include "tests/checkpoint/sample.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
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

}  // namespace
}  // namespace trainyard::engine
