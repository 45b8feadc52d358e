// Tests passes of blocks as ceilings: every kind of block runs alone, with the products of its rank and no others.
#include "libtrain/profile/block_work.h"

#include "kernels/kernel_clock.h"
#include "libtrain/base/error.h"
#include "libtrain/plan/measured_blocks.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/profile/known_link.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace trainyard {
namespace block_work_test {

profile::CeilingOptions options(plan::ModelConfig model, std::vector<profile::BlockLayout> layouts) {
  profile::CeilingOptions o;
  o.model = std::move(model);
  o.model.vocabulary = 300, o.model.lanes = 4;
  o.sequence = 64, o.dtypes = {base::DType::f32};
  o.blocks = std::move(layouts);
  return o;
}

// Operations of products in a block, by the kernels themselves, of one run of each ceiling.
std::map<std::string, double> operations_of(const profile::CeilingOptions& o) {
  std::map<std::string, double> out;
  for (const auto& c : profile::block_ceilings(o)) {
    const auto work = c.make();
    work.run();
    kernels::KernelClock clock(o.threads);
    {
      const kernels::KernelClock::Measuring measuring(clock);
      work.run();
      work.finish();
    }
    double& sum = out[c.name + " " + c.shape.substr(0, c.shape.find(" f32"))];
    for (const auto& row : clock.rows())
      if (row.work.m > 0) sum += row.work.operations / work.amount;
  }
  return out;
}

// 12 h^2 weights a layer, two operations each for a token, three products of each; a rank of two has half of them.
TEST(BlockWork, LayersHaveTheProductsOfTheirRank) {
  const auto model = plan::preset("gpt2-nano");
  const auto found = operations_of(options(model, {{1, 1, 1}, {2, 1, 1}, {2, 2, 1}}));
  const double h = static_cast<double>(model.hidden), forward = 2 * 64 * 12 * h * h;
  EXPECT_EQ(found.at("block.layers.forward b1 s64 t1 e1"), forward);
  EXPECT_EQ(found.at("block.layers.step b1 s64 t1 e1"), 3 * forward);
  EXPECT_EQ(found.at("block.layers.step.selective b1 s64 t1 e1"), 3 * forward);
  // In full, all but the last product again, whose output nobody reads.
  EXPECT_EQ(found.at("block.layers.step.full b1 s64 t1 e1"), 4 * forward - 2 * 64 * 4 * h * h);
  EXPECT_EQ(found.at("block.layers.inputs b1 s64 t1 e1"), 2 * forward);
  EXPECT_EQ(found.at("block.layers.step b2 s64 t1 e1"), 6 * forward);
  EXPECT_EQ(found.at("block.layers.step b2 s64 t2 e1"), 3 * forward);
  EXPECT_EQ(found.at("block.head.step b1 s64 t1 e1"), 3 * 2 * 64 * h * 384);  // 300 words are stored as 384 rows
  EXPECT_EQ(found.at("block.embedding.step b1 s64 t1 e1"), 0);
}

// Other kinds of models, with names that the planner finds again for the same layout.
TEST(BlockWork, EveryKindOfBlockRunsAlone) {
  auto sparse = plan::preset("gpt2-nano");
  sparse.attention.layout = {"sliding"}, sparse.attention.block = 16;
  for (auto model : {plan::preset("moe-nano"), plan::preset("llama-nano"), plan::preset("bert-nano"), sparse}) {
    const bool experts = !model.experts.count.empty();
    auto o = options(model, {{1, 1, 1}, {1, 2, 1}, {2, 1, experts ? 2 : 1}});
    o.model.lanes = 2;  // llama-nano has two key-value heads
    plan::Profile profile;
    for (const auto& c : profile::block_ceilings(o)) {
      const auto work = c.make();
      work.run(), work.run(), work.finish();
      profile.local.push_back({c.name, c.shape, c.unit, c.threads, 1, {1, 1}, {1}});
    }
    const plan::MeasuredBlocks blocks(profile);
    plan::Plan p;
    p.model = o.model, p.sequence = 64, p.micro_batch = 2, p.tensor = 1, p.expert_parallel = experts ? 2 : 1;
    for (const auto& s : plan::segments(p.model))
      EXPECT_EQ(blocks.seconds(s, p.micro(), plan::BlockPass::step, [](const auto&) { return 1; }), 1) << model.name;
  }
}

// Two of two tensor-parallel ranks are there, so a layer is measured alone, and with the sums that go between them.
TEST(BlockWork, CallsAreMadeWhereTheWholeGroupIsThere) {
  std::vector<std::string> shapes;
  comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& world) {
    auto ranks = testing::ranks_of(rank, world);
    auto o = options(plan::preset("gpt2-nano"), {{1, 2, 1}});
    o.together = &ranks;
    for (const auto& c : profile::block_ceilings(o)) {
      const auto work = c.make();
      work.run(), work.finish();
      if (rank == 0 && c.name == "block.layers.step") shapes.push_back(c.shape.substr(0, c.shape.find(" f32")));
    }
  });
  EXPECT_EQ(shapes, (std::vector<std::string>{"b1 s64 t2 e1", "b1 s64 t2 e1 calls"}));
}

// Layers are small, so all of them are run as neighbours; middle micro-batches go without the rarer passes.
TEST(BlockWork, ManySmallBlocksAreOneRun) {
  const auto model = plan::preset("gpt2-nano");
  std::map<std::string, double> amounts;
  for (const auto& c : profile::block_ceilings(options(model, {{1, 1, 1}, {2, 1, 1}, {4, 1, 1}})))
    amounts[c.name + " " + c.shape.substr(0, 2)] = c.make().amount;
  EXPECT_GT(model.layers, 1);
  EXPECT_EQ(amounts.at("block.layers.step b1"), static_cast<double>(model.layers));
  EXPECT_EQ(amounts.at("block.head.step b1"), 1);
  EXPECT_TRUE(amounts.count("block.layers.step b2"));
  EXPECT_FALSE(amounts.count("block.layers.step.full b2"));
  EXPECT_TRUE(amounts.count("block.layers.step.full b4"));
}

TEST(BlockWork, LayoutsThatDoNotFitAreLeftOut) {
  const auto model = plan::preset("gpt2-nano");  // without experts, with lanes for four ranks
  const auto o = options(model, {{1, 3, 1}, {1, 1, 2}});
  EXPECT_TRUE(profile::block_ceilings(o).empty());
  EXPECT_TRUE(profile::left_out_of_blocks(o).starts_with("micro-batch 1, 3 tensor-parallel and 1 expert-parallel"));
  EXPECT_EQ(profile::left_out_of_blocks(options(model, {{1, 2, 1}})), "");
}

TEST(BlockWork, ListsAreRead) {
  const auto model = plan::preset("moe-nano");
  const auto read = [&](const std::string& text) { return profile::blocks_of_text(text, "--blocks", model, 256, 4); };
  std::set<std::tuple<std::int64_t, int, int>> seen;
  for (const auto& l : read("auto")) seen.insert({l.micro_batch, l.tensor, l.experts});
  EXPECT_EQ(seen.size(), 3u * 6);  // 1, 2 and 8 sequences; of 4 ranks tensor x experts 1x1 1x2 1x4 2x1 2x2 4x1
  EXPECT_TRUE(seen.count({8, 2, 2}));
  const auto some = read("micro-batch=3,5 expert-parallel=2");
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[1].micro_batch, 5);
  EXPECT_EQ(some[1].tensor, 1);
  EXPECT_EQ(some[1].experts, 2);
  EXPECT_EQ(read("micro-batch=3,5,expert-parallel=2").size(), 2u);
  for (const auto* wrong : {"", " ", "3", "micro-batch=1 micro-batch=2", "tensor-parallel=65536 expert-parallel=65536",
                            "micro-batch", "micro-batch=", "micro-batch=0", "micro-batch=1,x", "ranks=2"})
    EXPECT_THROW(read(wrong), base::UsageError) << wrong;
}

}  // namespace block_work_test
}  // namespace trainyard
