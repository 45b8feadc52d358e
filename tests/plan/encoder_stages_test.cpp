// Pipeline stages of encoder-decoder models: what passes a boundary, which stages use which tables, bytes and calls.
#include "libtrain/plan/cost/memory.h"
#include "libtrain/plan/cost/traffic.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/schedule/stage_messages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trainyard::plan {
namespace encoder_stages_test {

// Items: the embedding, three layers, the bridge, two layers, the head.
ModelConfig model(bool relative = false) {
  ModelConfig m;
  m.hidden = 64, m.heads = m.kv_heads = 4, m.ffn = 256, m.vocabulary = 256, m.context = 128;
  m.encoder_layers = 3, m.decoder_layers = 2, m.layers = 5;
  if (relative) m.positions = Positions::relative;
  return m;
}

MicroShape shape(base::DType dtype) {
  MicroShape s;
  s.batch = 2, s.sequence = 10, s.source = 30, s.dtype = dtype;
  return s;
}

std::vector<std::int64_t> bytes_of(const std::vector<StageMessages::Tensor>& tensors) {
  std::vector<std::int64_t> out;
  for (const auto& tensor : tensors) out.push_back(tensor.bytes);
  return out;
}

TEST(EncoderStages, TheEncodersOutputPassesFromTheBridgeToTheLastLayer) {
  using Bytes = std::vector<std::int64_t>;
  const auto m = model();
  const std::int64_t source = 2 * 30 * 64, target = 2 * 10 * 64;
  for (std::int64_t item = 1; item < 8; ++item) {
    const StageMessages narrow(m, item, shape(base::DType::bf16)), wide(m, item, shape(base::DType::f32));
    const bool encoder = item <= 4, memory = item == 5 || item == 6;
    EXPECT_EQ(bytes_of(wide.activations()), encoder  ? Bytes{4 * source}
                                            : memory ? (Bytes{4 * target, 4 * source})
                                                     : Bytes{4 * target})
        << item;
    EXPECT_EQ(bytes_of(wide.gradients()), bytes_of(wide.activations())) << item;
    EXPECT_EQ(bytes_of(narrow.gradients()), encoder  ? Bytes{2 * source}
                                            : memory ? (Bytes{2 * target, 4 * source})
                                                     : Bytes{2 * target})
        << item;
  }
  auto one = m;
  one.encoder_layers = one.decoder_layers = 0;
  for (std::int64_t item = 1; item < 7; ++item)
    EXPECT_EQ(bytes_of(StageMessages(one, item, shape(base::DType::bf16)).activations()), Bytes{2 * target}) << item;
}

// The stages of each occurrence are in the order of the model, also where virtual stages leave it.
TEST(EncoderStages, TablesAreUsedInManyStages) {
  const auto m = model(true);
  using Shared = std::vector<FlatGroupOfStages>;
  const auto sorted = [&](const Stages& stages) {
    auto all = flat_groups_of_stages(m, stages);
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.flat_group < b.flat_group; });
    return all;
  };
  EXPECT_EQ(sorted({3, {0, 2, 6, 8}}), (Shared{{"decoder.relative_positions", {1, 2}, {1, 2}},
                                               {"embedding.tokens", {0, 1, 2}, {0, 1, 2}},
                                               {"encoder.relative_positions", {0, 1}, {0, 1, 1}}}));
  // The embedding and the bridge alone own tables that they do not use.
  EXPECT_EQ(sorted({4, {0, 1, 4, 5, 8}}), (Shared{{"decoder.relative_positions", {2, 3}, {3, 3}},
                                                  {"embedding.tokens", {0, 2, 3}, {0, 2, 3}},
                                                  {"encoder.relative_positions", {0, 1}, {1, 1, 1}}}));
  EXPECT_EQ(sorted({2, {0, 2, 4, 6, 8}}), (Shared{{"decoder.relative_positions", {0, 1}, {0, 1}},
                                                  {"embedding.tokens", {0, 1}, {0, 0, 1}},
                                                  {"encoder.relative_positions", {0, 1}, {0, 1, 1}}}));
  EXPECT_EQ(sharing_stages(m, {4, {0, 1, 4, 5, 8}}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_TRUE(sharing_stages(m, {1, {0, 8}}).empty());
  auto untied = model();
  untied.tied = false;
  EXPECT_EQ(sharing_stages(untied, {3, {0, 2, 5, 8}}), (std::vector<int>{0, 1}));  // embedding and bridge
}

Plan sample(const std::string& partition, int stages, bool relative) {
  Plan p;
  p.model = model(relative);
  p.pipeline = stages, p.partition = partition;
  p.topology = replicas_of(stages, 1, stages);
  p.global_batch = 6, p.micro_batch = 2, p.sequence = 10, p.source_sequence = 30;
  predict(p);
  return p;
}

Traffic traffic_of(const Plan& p, int rank, CallGroup group, const std::string& operation) {
  for (const auto& t : traffic_of_step(p, rank, p.global_batch))
    if (t.group == group && t.operation == operation) return t;
  return {group, operation};
}

// By hand, for three micro-batches of 2 x 10 target and 2 x 30 source tokens, in f32.
TEST(EncoderStages, MessagesAndSumsOfAStep) {
  const auto p = sample("0,2,6", 3, true);
  ASSERT_TRUE(problems(p, 3).empty()) << text_of(problems(p, 3));
  const std::int64_t source = 4 * 2 * 30 * 64, target = 4 * 2 * 10 * 64, table = 256 * 64, buckets = 32 * 4;
  EXPECT_EQ(traffic_of(p, 0, Axis::pipe, "activations"), (Traffic{Axis::pipe, "activations", 3, 3 * source}));
  EXPECT_EQ(traffic_of(p, 1, Axis::pipe, "activations"),
            (Traffic{Axis::pipe, "activations", 3 + 6, 3 * (source + target)}));
  EXPECT_EQ(traffic_of(p, 1, Axis::pipe, "gradients"), (Traffic{Axis::pipe, "gradients", 6 + 3, 3 * source}));
  EXPECT_EQ(traffic_of(p, 2, Axis::pipe, "gradients"), (Traffic{Axis::pipe, "gradients", 6, 3 * (source + target)}));
  // Each sends the sums of its own occurrences to every other stage that holds the table.
  const auto stages = CallGroup::stages();
  EXPECT_EQ(traffic_of(p, 0, stages, "all_gather"), (Traffic{stages, "all_gather", 1, 4 * (2 * table + buckets)}));
  EXPECT_EQ(traffic_of(p, 1, stages, "all_gather"),
            (Traffic{stages, "all_gather", 1, 4 * (2 * table + 2 * buckets + buckets)}));
  EXPECT_EQ(traffic_of(p, 2, stages, "all_gather"), (Traffic{stages, "all_gather", 1, 4 * (2 * table + buckets)}));
  EXPECT_EQ(stage_staging_bytes(FlatGroupTable(p.part_of_stage(1), p.topology), p.states(),
                                flat_groups_of_stage(p.model, p.stages, 1)),
            4 * (2 * table + buckets + buckets));
}

// A stage that owns a table without using it keeps one sum, into which the sums of other stages go.
TEST(EncoderStages, ATableWithoutUseHasASum) {
  const auto p = sample("0,1", 2, true);
  const FlatGroupSet set(p.part_of_stage(0), p.topology);
  ASSERT_EQ(set.flat_groups.size(), 2u);
  EXPECT_EQ(set.occurrences, (std::vector<Occurrence>{{0, 0}, {1, 0}}));
  const auto both = state_bytes(set.table, p.states()).gradients;
  EXPECT_EQ(both, 4 * (256 * 64 + 32 * 4));
}

}  // namespace encoder_stages_test
}  // namespace trainyard::plan
