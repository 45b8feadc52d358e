// Resharding to and from tensor-parallel ranks: the files of a save on those ranks, byte for byte.
#include "tests/checkpoint/reshard_files.h"

#include "libtrain/checkpoint/average.h"
#include "libtrain/checkpoint/manifest_checks.h"

#include <gtest/gtest.h>

#include <utility>

using namespace sample;
using trainyard::base::DType;

// To and from tensor-parallel ranks, with slices of vocabulary tables that have no logical row. The mean fills such
// files in another order.
TEST(Reshard, GivesTheFilesOfASaveOnTensorRanks) {
  for (const auto& model : {gpt_of_heads(), llama_of_heads()})
    for (auto dtype : {DType::f32, DType::bf16}) {
      Scratch scratch;
      const auto s = state(model, dtype, 5);
      save(scratch.path + "/from", s, plan::replicas_of(6, 2));
      auto before = scratch.path + "/from/step-00000005";
      for (const auto& [data, tensor] : {std::pair{1, 4}, std::pair{3, 2}, std::pair{2, 1}, std::pair{3, 4}}) {
        const auto what = fmt::format("{} {} on {} x {}", model.name, base::name_of(dtype), data, tensor);
        const auto expected = fmt::format("{}/expected-{}-{}", scratch.path, data, tensor),
                   found = fmt::format("{}/{}-{}", scratch.path, data, tensor), mean = found + "-mean";
        save(expected, s, plan::replicas_of(data * tensor, tensor));
        checkpoint::ReshardOptions o;
        o.threads = 2;
        const checkpoint::NewLayout layout{data, {}, {}, {}, {}, tensor};
        EXPECT_EQ(reshard(before, found, layout, o).ranks, data * tensor);
        expect_same_files(found, expected + "/step-00000005", what);
        EXPECT_EQ(checkpoint::Reader(found).state().plan["ranks"], data * tensor) << what;
        const auto source = whole(before);
        checkpoint::average({&source}, mean, layout, o);
        if (dtype == DType::f32) expect_same_ranks(mean, found, what);  // bf16: the mean has rounded masters
        else EXPECT_TRUE(checkpoint::layout_is_ours(checkpoint::Reader(mean).manifest())) << what;
        before = found;
      }
    }
}

// A model whose payloads have several blocks, sharded by columns and back.
TEST(Reshard, ColumnsOfManyBlocks) {
  Scratch scratch;
  const auto s = state(middling(), DType::bf16, 5);
  save(scratch.path + "/from", s, 3);
  save(scratch.path + "/expected", s, plan::replicas_of(12, 4));
  reshard(scratch.path + "/from/step-00000005", scratch.path + "/to", {3, {}, {}, {}, {}, 4});
  expect_same_files(scratch.path + "/to", scratch.path + "/expected/step-00000005", "by columns");
  reshard(scratch.path + "/to", scratch.path + "/back", {3, {}, {}, {}, {}, 1});
  expect_same_files(scratch.path + "/back", scratch.path + "/from/step-00000005", "and back");
}

TEST(Reshard, TensorRanksThatCannotShareTheModelAreRefused) {
  Scratch scratch;
  const auto from = scratch.path + "/step-00000005", to = scratch.path + "/to";
  save(scratch.path, state(gpt_of_heads(), DType::f32, 5), 1);
  const std::pair<int, const char*> refused[] = {
      {3, "--tensor-parallel 3 does not divide kv-heads 4"},
      {5, "--tensor-parallel 5 is more than the model's 4 key-value heads: some ranks would have none"}};
  for (const auto& [tensor, expected] : refused) {
    try {
      reshard(from, to, {1, {}, {}, {}, {}, tensor});
      ADD_FAILURE() << tensor;
    } catch (const base::UsageError& e) {
      EXPECT_EQ(e.what(), std::string(expected));
      EXPECT_EQ(e.hint(), tensor == 3 ? "--tensor-parallel 2 or --tensor-parallel 4" : "--tensor-parallel 4");
    }
    EXPECT_FALSE(fs::exists(to + ".partial"));
  }
}
