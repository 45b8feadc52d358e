// Tests the plan of inputs of layers on disk: which layers, extents and buffers, the bytes of each place and of each
// step, the order of the reads of a step, all counted by hand; and what is refused.
#include "libtrain/plan/cost/activation_offload.h"
#include "libtrain/plan/activation_use.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/disk_use.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

namespace trainyard::plan {
namespace activation_offload_test {

// Three layers; an input has 32 tokens of 72 elements: 9,216 bytes in f32, which no page holds whole.
Plan plan_of(const char* offload, std::int64_t micro_batches, AccumulationOrder order) {
  Plan p;
  p.model = preset("gpt2-nano");
  p.model.layers = 3, p.model.hidden = 72, p.model.heads = p.model.kv_heads = 4, p.model.ffn = 288;
  p.model.context = 32, p.model.vocabulary = 128, p.model.lanes = 1;
  p.sequence = 32, p.micro_batch = 1, p.global_batch = micro_batches;
  p.recompute = Recompute::layers, p.accumulation_order = order;
  p.offload = offload_of_text(offload, "test");
  return p;
}

Plan predicted(Plan p) {
  EXPECT_TRUE(decision_problems(p).empty()) << text_of(decision_problems(p));
  predict(p);
  return p;
}

constexpr std::int64_t input = 32 * 72 * 4, pages = 3 * 4096;
using Category = base::MemoryCategory;

// Of one micro-batch in flight.
TEST(ActivationOffload, DepthFirst) {
  const auto p = predicted(plan_of("activations=disk", 4, AccumulationOrder::depth)),
             in_memory = predicted(plan_of("none", 4, AccumulationOrder::depth));
  EXPECT_EQ(p.disk, (DiskBytes{3 * pages, 4 * 3 * pages, 4 * 3 * pages}));
  EXPECT_EQ(in_memory.memory.categories[Category::activations] - p.memory.categories[Category::activations], 3 * input);
  EXPECT_EQ(p.memory.categories[Category::offload_buffers], (2 + 3) * pages);
  auto rest = p.memory.categories, expected = in_memory.memory.categories;
  for (auto* of : {&rest, &expected}) (*of)[Category::activations] = (*of)[Category::offload_buffers] = 0;
  EXPECT_EQ(rest, expected) << "nothing else changes";
}

// Of a GPU: buffers of the device, which the activations count, and passages of the host. Each input goes down and up.
TEST(ActivationOffload, OnADiskOfAGpu) {
  const auto of_gpu = [](const char* offload) {
    auto p = plan_of(offload, 4, AccumulationOrder::breadth);
    p.device = base::DeviceKind::cuda, p.model.hidden = 64, p.model.ffn = 256;
    return predicted(p);
  };
  constexpr std::int64_t of_input = 32 * 64 * 4;  // two whole pages
  const auto on_disk = of_gpu("activations=disk"), on_host = of_gpu("activations=host"), in_memory = of_gpu("none");
  const auto bytes = [](const Plan& p, Category c) { return p.memory.categories[c]; };
  for (const auto* p : {&on_disk, &on_host}) {
    EXPECT_EQ(bytes(in_memory, Category::activations) - bytes(*p, Category::activations), (4 * 3 - 2 - 3) * of_input);
    EXPECT_EQ(p->link, (LinkBytes{4 * 3 * of_input, 4 * 3 * of_input}));
  }
  EXPECT_EQ(on_disk.disk, (DiskBytes{4 * 3 * of_input, 4 * 3 * of_input, 4 * 3 * of_input}));
  EXPECT_EQ(bytes(on_disk, Category::offload_buffers), (2 + 3) * of_input);
  EXPECT_EQ(bytes(on_disk, Category::offloaded_states), 0);
  EXPECT_EQ(on_host.disk, DiskBytes());
  EXPECT_EQ(bytes(on_host, Category::offload_buffers), 0);
  EXPECT_EQ(bytes(on_host, Category::offloaded_states), 4 * 3 * of_input);
  EXPECT_EQ(on_disk.memory.on_host - in_memory.memory.on_host, (2 + 3) * of_input);
}

// Of all micro-batches: memory no longer grows with the layers times the micro-batches.
TEST(ActivationOffload, BreadthFirst) {
  const auto p = predicted(plan_of("activations=disk", 5, AccumulationOrder::breadth)),
             in_memory = predicted(plan_of("none", 5, AccumulationOrder::breadth));
  EXPECT_EQ(p.disk, (DiskBytes{5 * 3 * pages, 5 * 3 * pages, 5 * 3 * pages}));
  EXPECT_EQ(in_memory.memory.categories[Category::activations] - p.memory.categories[Category::activations],
            5 * 3 * input);
  EXPECT_EQ(p.memory.categories[Category::offload_buffers], (2 + 3) * pages);
}

// Whole layers, the first ones; no more buffers than extents.
TEST(ActivationOffload, AShareIsOfWholeLayers) {
  const auto layers = [](double share) {
    auto p = plan_of("none", 1, AccumulationOrder::depth);
    p.offload.activations = {Place::disk, share};
    p = predicted(p);
    const auto of = activation_offload_of_stage(p, 0);
    const auto first = of.layers_of_chunks().at(0);
    for (std::int64_t layer = 0; layer < 3; ++layer)
      EXPECT_EQ(of.extent(0, layer, 0), layer < first ? layer : -1) << share;
    EXPECT_EQ(p.disk, (DiskBytes{first * pages, first * pages, first * pages}));
    EXPECT_EQ(p.memory.categories[Category::offload_buffers], (std::min<std::int64_t>(2, first) + first) * pages);
    return first;
  };
  EXPECT_EQ(layers(1e-6), 1);
  EXPECT_EQ(layers(1.0 / 3), 1);
  EXPECT_EQ(layers(0.34), 2);
  EXPECT_EQ(layers(1), 3);
}

// A layer in memory that runs above kept inputs: the last of three, with the inputs of two on disk.
TEST(ActivationOffload, ALayerRunsAboveWhatIsKept) {
  const auto p = plan_of("none", 1, AccumulationOrder::depth);
  const auto of_layer = saved_bytes(p.model, p.micro(), Recompute::layers, 0),
             two = saved_bytes(p.model, p.micro(), Recompute::layers, 2),
             all = saved_bytes(p.model, p.micro(), Recompute::layers, 3);
  EXPECT_EQ(of_layer.kept - two.kept, 2 * input);
  EXPECT_EQ(of_layer.kept - all.kept, 3 * input);
  EXPECT_EQ(of_layer.most - two.most, 2 * input);
  EXPECT_EQ(of_layer.most - all.most, 3 * input);
  EXPECT_EQ(all.passing, of_layer.passing);
}

// Beside states, and with an uneven last accumulation step: of five micro-batches, a rank has three and the other two.
TEST(ActivationOffload, RanksHaveTheirOwnMicroBatches) {
  auto p = plan_of("optimizer=disk,activations=disk:0.5", 5, AccumulationOrder::breadth);
  p.topology = Topology({{Axis::data, 2}}), p.zero = 1;
  p = predicted(p);
  const auto states = offload_of_stage(p, 0).update_bytes();
  EXPECT_GT(states.written, 0);
  EXPECT_EQ(activations_of_step(p, 0, 5, 0), (base::StorageTotals{3 * 2 * pages, 3 * 2 * pages}));
  EXPECT_EQ(activations_of_step(p, 0, 5, 1), (base::StorageTotals{2 * 2 * pages, 2 * 2 * pages}));
  EXPECT_EQ(activations_of_step(p, 0, 2, 1), (base::StorageTotals{2 * pages, 2 * pages})) << "a smaller step";
  EXPECT_EQ(p.disk.read, states.read + 3 * 2 * pages);
  EXPECT_EQ(p.disk.written, states.written + 3 * 2 * pages);
  EXPECT_EQ(disk_of_step(p, 0, 5, 1).written, states.written + 2 * 2 * pages);
  EXPECT_EQ(p.disk.space, offload_of_stage(p, 0).disk_bytes() + 3 * 2 * pages);
}

// The share is of a stage's layers: with virtual stages, those of the first one come first.
TEST(ActivationOffload, OfVirtualStages) {
  auto p = plan_of("activations=disk:0.75", 4, AccumulationOrder::depth);
  p.model.layers = 8, p.pipeline = 2, p.virtual_stages = 2, p.pipeline_schedule = PipelineSchedule::interleaved;
  p.partition = "0,3,5,7", p.topology = topology_of(p, 2);
  p = predicted(p);
  const auto slots = slots_of_stage(p, 1);
  const auto of = activation_offload_of_stage(p, 1);
  EXPECT_EQ(of.layers_of_chunks(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(of.extents(), 2 * slots.at(0) + slots.at(1));
  EXPECT_EQ(of.extent(0, 1, 0), slots.at(0));
  EXPECT_EQ(of.extent(1, 0, 0), 2 * slots.at(0));
  EXPECT_EQ(of.extent(1, 1, 0), -1);
}

TEST(ActivationOffload, NarrowAndSharedRowsAreSmaller) {
  auto p = plan_of("activations=disk", 1, AccumulationOrder::depth);
  p.dtype = base::DType::bf16, p.model.lanes = 2, p.tensor = 2, p.sequence_parallel = true;
  p.micro_batch = p.global_batch = 4;
  p.topology = topology_of(p, 2);
  EXPECT_EQ(activation_offload_of_stage(predicted(p), 0).bytes(), 4 * input / 4);
}

// Extents are numbered by layer and slot: layer 1 has 2 and 3 where there are two slots.
TEST(ActivationOffload, ReadsFollowBackward) {
  const auto reads = [](const Plan& p, int rank = 0) {
    const auto stage = p.stage_of(rank);
    return input_reads(actions(p, rank), p.part_of_stage(stage), activation_offload_of_stage(p, stage));
  };
  using Extents = std::vector<int>;
  EXPECT_EQ(reads(predicted(plan_of("activations=disk", 2, AccumulationOrder::depth))), (Extents{2, 1, 0, 2, 1, 0}));
  EXPECT_EQ(reads(predicted(plan_of("activations=disk", 2, AccumulationOrder::breadth))), (Extents{4, 5, 2, 3, 0, 1}));
  EXPECT_EQ(reads(predicted(plan_of("activations=disk:0.6", 2, AccumulationOrder::breadth))), (Extents{2, 3, 0, 1}));
  EXPECT_TRUE(reads(predicted(plan_of("none", 2, AccumulationOrder::breadth))).empty());
  // Three micro-batches of two ranks: the second rank's second one is empty.
  auto uneven = plan_of("activations=disk", 3, AccumulationOrder::breadth);
  uneven.topology = Topology({{Axis::data, 2}});
  EXPECT_EQ(reads(predicted(uneven), 1), (Extents{4, 2, 0}));
  // Two stages by 1F1B: the first has embedding and layer 0, and two slots that three micro-batches use in turn.
  auto stages = plan_of("activations=disk", 3, AccumulationOrder::depth);
  stages.pipeline = 2, stages.partition = "0,2", stages.topology = topology_of(stages, 2);
  EXPECT_EQ(reads(predicted(stages), 0), (Extents{0, 1, 0}));
  EXPECT_EQ(reads(predicted(stages), 1), (Extents{1, 0, 1, 0, 1, 0})) << "one slot, layers 1 and 2";
}

TEST(ActivationOffload, Refusals) {
  const auto refused = [](const char* offload, const std::function<void(Plan&)>& change) {
    auto p = plan_of(offload, 2, AccumulationOrder::depth);
    change(p);
    const auto found = decision_problems(p);
    return found.empty() ? std::string() : found[0].message + " | " + found[0].hint;
  };
  EXPECT_EQ(refused("activations=disk", [](Plan&) {}), "");
  for (const auto recompute : {Recompute::none, Recompute::selective})
    EXPECT_NE(refused("activations=disk:0.5", [&](Plan& p) { p.recompute = recompute; })
                  .find("layers keep more than their inputs"),
              std::string::npos);
  const auto host = refused("activations=host", [](Plan&) {});
  EXPECT_NE(host.find("whose memory is the host's"), std::string::npos) << host;
  const auto on_gpu = [](Plan& p) { p.device = base::DeviceKind::cuda, p.model.hidden = 64, p.model.ffn = 256; };
  EXPECT_EQ(refused("activations=disk", on_gpu), "");
  EXPECT_EQ(refused("activations=host", on_gpu), "");
  const auto large = refused("activations=disk", [](Plan& p) {
    p.model.context = p.sequence = 1 << 20, p.global_batch = 1 << 20, p.model.layers = 512, p.model.hidden = 4096;
    p.model.ffn = 4 * p.model.hidden;
  });
  EXPECT_NE(large.find("bytes in a step: that is too large"), std::string::npos) << large;
  const auto many = refused("activations=disk", [](Plan& p) {
    p.global_batch = 1 << 20, p.model.layers = 16, p.accumulation_order = AccumulationOrder::breadth;
  });
  EXPECT_NE(many.find("a list of at most 10000000"), std::string::npos) << many;
  // What states on disk do not go with is no matter of activations.
  EXPECT_EQ(refused("activations=disk", [](Plan& p) { p.optimizer = "lamb"; }), "");
  EXPECT_EQ(
      refused("activations=disk", [](Plan& p) { p.dtype = base::DType::bf16, p.master = MasterFormat::remainder; }),
      "");
}

TEST(ActivationOffload, IsInPlansAndInTheirText) {
  const auto p = predicted(plan_of("activations=disk:0.5,optimizer=disk", 2, AccumulationOrder::breadth));
  EXPECT_EQ(offload_text(p.offload), "optimizer=disk,activations=disk:0.5");
  EXPECT_TRUE(p.offload.of_states());
  EXPECT_FALSE(offload_of_text("activations=disk", "test").of_states());
  const auto json = to_json(p);
  const auto again = plan_from_json(json, "plan.json");
  EXPECT_EQ(again.offload, p.offload);
  EXPECT_EQ(again.disk, p.disk);
  EXPECT_EQ(to_json(again), json);
}

}  // namespace activation_offload_test
}  // namespace trainyard::plan
