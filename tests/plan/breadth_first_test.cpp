// Tests steps that work breadth first: the order of a stage by hand, lists of every small shape without an error,
// mistakes in lists, slots, memory, and what ZeRO 3 gathers.
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/cost/memory.h"
#include "libtrain/plan/remedies.h"
#include "libtrain/plan/schedule/accesses.h"
#include "libtrain/plan/schedule/simulate.h"
#include "libtrain/plan/stage_table.h"
#include "tests/plan/small_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace trainyard::plan {
namespace breadth_first_test {

// "F0.1": the forward pass of micro-batch 0 through block 1; a micro-batch that the rank does not have is "-". Loads
// and messages have a slot.
std::string text_of(const std::vector<Action>& actions) {
  const std::map<Action::Kind, const char*> names = {{Action::Kind::forward, "F"}, {Action::Kind::backward, "B"}};
  std::string out;
  for (const auto& a : actions) {
    if (!out.empty()) out += ' ';
    const auto micro = a.micro < 0 ? "-" : fmt::format("{}", a.micro);
    const auto pass = names.find(a.kind);
    if (pass != names.end()) out += fmt::format("{}{}.{}", pass->second, micro, a.block);
    else if (a.place < 0) out += name_of(a.kind);
    else out += fmt::format("{} {}@{}", name_of(a.kind), micro, a.slot);
    EXPECT_EQ(a.block >= 0, pass != names.end());
  }
  return out;
}

Pipeline breadth(std::int64_t blocks, int stages = 1) { return {PipelineSchedule::gpipe, stages, 1, blocks}; }

TEST(BreadthFirst, EveryMicroBatchPassesABlockBeforeTheNextBlock) {
  EXPECT_EQ(text_of(step_actions({3, 1, 1, 1}, 0, breadth(3), 0)),
            "ask agree load 0@0 F0.0 load 1@1 F1.0 load 2@2 F2.0 F0.1 F1.1 F2.1 F0.2 F1.2 F2.2 "
            "B0.2 B1.2 B2.2 B0.1 B1.1 B2.1 B0.0 B1.0 B2.0 reduce update");
  // Three micro-batches on two ranks. The second rank is idle in the last accumulation step.
  EXPECT_EQ(text_of(step_actions({3, 1, 1, 2}, 0, breadth(2), 0)),
            "ask agree load 0@0 F0.0 load 2@1 F2.0 F0.1 F2.1 B0.1 B2.1 B0.0 B2.0 reduce update");
  EXPECT_EQ(text_of(step_actions({3, 1, 1, 2}, 1, breadth(2), 0)),
            "ask agree load 1@0 F1.0 F-.0 F1.1 F-.1 B1.1 B-.1 B1.0 B-.0 reduce update");
}

// Messages leave the last block and arrive at the first, in the order of the micro-batches.
TEST(BreadthFirst, StagesSendWhatTheirLastBlockMakes) {
  EXPECT_EQ(text_of(step_actions({2, 1, 1, 1}, 0, breadth(2, 2), 0)),
            "ask agree load 0@0 F0.0 load 1@1 F1.0 F0.1 send_activations 0@0 receive_gradients 0@0 "
            "F1.1 send_activations 1@1 receive_gradients 1@1 B0.1 B1.1 B0.0 B1.0 reduce update");
  EXPECT_EQ(text_of(step_actions({2, 1, 1, 1}, 0, breadth(2, 2), 1)),
            "ask agree receive_activations 0@-1 load 0@0 receive_activations 1@-1 F0.0 load 1@1 F1.0 F0.1 F1.1 "
            "B0.1 B1.1 B0.0 send_gradients 0@0 B1.0 send_gradients 1@1 reduce update");
}

std::vector<PartCosts> costs_of(int parts) {
  return std::vector<PartCosts>(static_cast<std::size_t>(parts), {6, 6, 6, 1});
}

std::vector<std::vector<Action>> lists_of(int micros, int stages, std::int64_t blocks) {
  std::vector<std::vector<Action>> out;
  for (int s = 0; s < stages; ++s) out.push_back(step_actions({micros, 1, 1, 1}, 0, breadth(blocks, stages), s));
  return out;
}

TEST(BreadthFirst, ListsOfEveryShapeAreCorrect) {
  for (int stages = 1; stages <= 4; ++stages)
    for (int micros = 1; micros <= 6; ++micros)
      for (const std::int64_t blocks : {1, 2, 3}) {
        const auto simulated = simulate(lists_of(micros, stages, blocks), 1, costs_of(stages), 0, micros);
        ASSERT_EQ(simulated.problem, "") << stages << " stages, " << micros << " micro-batches, " << blocks;
        for (const auto& stage : simulated.stages) {
          EXPECT_EQ(stage.most_in_flight, (std::vector<int>{micros}));
          EXPECT_DOUBLE_EQ(stage.busy, 18.0 * micros);
        }
        // The next stage begins when the first micro-batch leaves the last block of this one.
        const double first = 6.0 * (static_cast<double>(blocks - 1) * micros + 1) / static_cast<double>(blocks);
        EXPECT_NEAR(simulated.stages.back().work.front().begin, first * (stages - 1), 1e-9);
      }
}

// Two neighbouring passes of one micro-batch in the wrong order, a block left out, and micro-batches that do not
// ascend.
TEST(BreadthFirst, MistakesInListsAreFound) {
  const auto problem_of = [](const auto& damage) {
    auto lists = lists_of(3, 1, 3);
    damage(lists[0]);
    return simulate(lists, 1, costs_of(1), 0, 3).problem;
  };
  const auto at = [](std::vector<Action>& list, Action::Kind kind, std::int64_t micro, std::int64_t block) {
    return std::find_if(list.begin(), list.end(),
                        [&](const Action& a) { return a.kind == kind && a.micro == micro && a.block == block; });
  };
  using Kind = Action::Kind;
  EXPECT_EQ(problem_of([](auto&) {}), "");
  EXPECT_EQ(problem_of([&](auto& l) { std::iter_swap(at(l, Kind::forward, 1, 1), at(l, Kind::forward, 1, 2)); }),
            "stage 0: forward of micro-batch 1 in block 2 after block 0");
  EXPECT_EQ(problem_of([&](auto& l) { l.erase(at(l, Kind::forward, 2, 2)); }),
            "stage 0: backward of micro-batch 2 in block 2 after block 1");
  EXPECT_EQ(problem_of([&](auto& l) { l.erase(at(l, Kind::backward, 0, 1)); }),
            "stage 0: backward of micro-batch 0 in block 0 after block 2");
  EXPECT_EQ(problem_of([&](auto& l) { std::iter_swap(at(l, Kind::backward, 0, 1), at(l, Kind::backward, 1, 1)); }),
            "stage 0: backward of micro-batch 0 behind that of 1");
}

// Four layers, two of which are gathered at once: eight micro-batches on each of two ranks.
Plan breadth_plan() {
  auto p = small_plan();
  p.model.layers = 4;
  p.zero = 3;
  p.global_batch = 16;
  p.accumulation_order = AccumulationOrder::breadth;
  return p;
}
Plan predicted(Plan p) {
  EXPECT_EQ(first_problem(p), "");
  predict(p);
  return p;
}

std::int64_t gathers_of(const Plan& p, std::int64_t sequences) {
  for (const auto& t : traffic_of_step(p, 0, sequences))
    if (t.group == CallGroup(Axis::data) && t.operation == "all_gather") return t.calls;
  return 0;
}

// GPT-2 has four kinds of flat groups: the token table, positions, a layer, the final norm. A step needs the table for
// the embedding and for the tied head, whose forward pass needs nothing.
TEST(BreadthFirst, WeightsAreGatheredOnceForAllMicroBatches) {
  const auto p = predicted(breadth_plan());
  ASSERT_TRUE(p.model.tied);
  // The table, positions and the norm once: nothing else uses their slots. Each layer once in forward; in backward the
  // last two are still there.
  EXPECT_EQ(gathers_of(p, 16), 3 + 4 + 2);
  EXPECT_EQ(gathers_of(p, 8), 3 + 4 + 2);
  auto other = breadth_plan();
  other.gathered_layers = 1;
  EXPECT_EQ(gathers_of(predicted(other), 16), 3 + 4 + 3);
  other.gathered_layers = 9;
  EXPECT_EQ(gathers_of(predicted(other), 16), 3 + 4);
  // Depth first every micro-batch gathers for each lease; so does a step of one micro-batch a rank.
  other = breadth_plan();
  other.accumulation_order = AccumulationOrder::depth;
  const auto each = gathers_of(predicted(other), 2);
  EXPECT_EQ(gathers_of(predicted(other), 16), 8 * each);
  EXPECT_GE(each, 3 + 4 + 4);
  EXPECT_EQ(gathers_of(p, 2), each);
}

// The planner's number of gathers is that of a walk over all leases of the list.
TEST(BreadthFirst, GathersAreThoseOfAWalkOverTheList) {
  for (const char* name : {"gpt2-nano", "llama-nano"})
    for (const int gathered : {1, 2, 3, 5})
      for (const std::int64_t micros : {2, 3, 7}) {
        auto p = breadth_plan();
        const auto vocabulary = p.model.vocabulary;
        p.model = preset(name);
        p.model.vocabulary = vocabulary, p.model.layers = 4;
        p.gathered_layers = gathered, p.global_batch = 2 * micros;
        const auto part = p.part_of_stage(0);
        const FlatGroupTable table(part, p.topology);
        const SlotPlan slots(table, gathered);
        const auto order = step_leases(part, actions(p, 0));
        ASSERT_TRUE(order.keeps);
        std::vector<std::int64_t> walked(static_cast<std::size_t>(table.flat_groups()), 0);
        std::map<int, int> held;
        for (const auto pass : order.passes)
          for (const auto& lease : order.lists[pass]) {
            const auto slot = slots.slot_of(lease.flat_group);
            if (!held.contains(slot) || held[slot] != lease.flat_group)
              ++walked[static_cast<std::size_t>(lease.flat_group)];
            held[slot] = lease.flat_group;
          }
        EXPECT_EQ(breadth_first_gathers(part, slots, micros), walked) << name << " " << gathered << " " << micros;
      }
}

TEST(BreadthFirst, EveryMicroBatchOfARankHasASlot) {
  auto p = breadth_plan();
  for (const auto recompute : recomputations) {
    p.recompute = recompute;
    const auto of = predicted(p);
    EXPECT_EQ(slots_of_stage(of, 0), (std::vector<int>{8}));
    EXPECT_EQ(slots_of(actions(of, 0), 1), (std::vector<int>{8}));
    auto more = p;
    more.global_batch = 32;
    const auto part = of.part_of_stage(0);
    // What a micro-batch more needs: the hidden states once for all layers, and what layers keep.
    const auto kept = stream_bytes(of.model, of.micro()) + saved_bytes(part, of.micro(), recompute).kept;
    const auto activations = [](const Plan& plan) { return plan.memory.categories[base::MemoryCategory::activations]; };
    EXPECT_EQ(activations(predicted(more)) - activations(of), 8 * kept) << name_of(recompute);
    EXPECT_EQ(predicted(more).memory.reserve - of.memory.reserve, 8 * loaded_bytes(of.micro(), Objective::causal));
    // The same as gpipe's, which has as many in flight.
    auto gpipe = p;
    gpipe.accumulation_order = AccumulationOrder::depth, gpipe.pipeline_schedule = PipelineSchedule::gpipe;
    EXPECT_EQ(activations(predicted(gpipe)), activations(of));
  }
  // Input and output of a layer are the same hidden states: with full recomputation, a layer more is one input more.
  p.recompute = Recompute::layers;
  auto deeper = p;
  ++deeper.model.layers;
  const auto stream = stream_bytes(p.model, p.micro());
  EXPECT_EQ(predicted(deeper).memory.categories[base::MemoryCategory::activations] -
                predicted(p).memory.categories[base::MemoryCategory::activations],
            8 * stream);
}

// With one micro-batch a rank the orders are the same, and so are the lists.
TEST(BreadthFirst, OneMicroBatchOfARankHasNoOrder) {
  auto p = breadth_plan();
  p.global_batch = 2;
  auto depth = p;
  depth.accumulation_order = AccumulationOrder::depth;
  EXPECT_EQ(actions(p, 0), actions(depth, 0));
  EXPECT_EQ(predicted(p).memory.total(), predicted(depth).memory.total());
  EXPECT_EQ(predicted(p).traffic, predicted(depth).traffic);
}

TEST(BreadthFirst, OtherSchedulesThanGpipeAreRefused) {
  auto p = breadth_plan();
  p.pipeline = 2, p.topology = topology_of(p, 2);
  for (const auto schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved, PipelineSchedule::naive,
                              PipelineSchedule::zero_bubble}) {
    p.pipeline_schedule = schedule;
    EXPECT_EQ(
        first_problem(p).find("--accumulation-order breadth computes all forward passes before any backward pass, and"),
        0u)
        << first_problem(p);
  }
  p.pipeline_schedule = PipelineSchedule::gpipe;
  EXPECT_EQ(first_problem(p), "");
}

// Gradients may leave depth first only where one accumulation step has all micro-batches.
TEST(BreadthFirst, ItIsTheOrderOfGradientsElsewhere) {
  Plan p;
  p.model = preset("gpt2-nano"), p.model.vocabulary = 257, p.model.lanes = 1;
  p.sequence = 32, p.global_batch = 8, p.zero = 2, p.offload.gradients = {Place::disk, 1};
  EXPECT_TRUE(p.breadth_first(p.batch()));
  EXPECT_EQ(first_problem(p), "");
  p.local_accumulation = 8;
  EXPECT_FALSE(p.breadth_first(p.batch()));
  EXPECT_EQ(first_problem(p), "");
  p.local_accumulation = 1, p.accumulation_order = AccumulationOrder::depth;
  EXPECT_FALSE(p.breadth_first(p.batch()));
  EXPECT_NE(first_problem(p), "");
}

// A stage begins when the first micro-batch leaves the last block of the stage before. Depth first that is earlier.
TEST(BreadthFirst, IdleTimeOfStagesIsThatOfTheOrder) {
  auto p = breadth_plan();
  p.pipeline = 2, p.topology = topology_of(p, 2);
  p.pipeline_schedule = PipelineSchedule::gpipe;
  p = predicted(p);
  const auto text = idle_text(p);
  EXPECT_NE(text.find("--accumulation-order depth makes it"), std::string::npos) << text;
  auto depth = p;
  depth.accumulation_order = AccumulationOrder::depth;
  EXPECT_GT(idle_of(p)->fraction, idle_of(depth)->fraction + 0.1);
  EXPECT_EQ(idle_text(depth).find("--accumulation-order"), std::string::npos) << idle_text(depth);
}

TEST(BreadthFirst, WhereMemoryIsShortDepthIsNamed) {
  auto p = breadth_plan();
  p.global_batch = 512;
  p = predicted(p);
  auto depth = p;
  depth.accumulation_order = AccumulationOrder::depth;
  p.device_memory = predicted(depth).memory.total();
  EXPECT_NE(remedies(p, Pass::train, "device-memory").find("--accumulation-order depth would need"), std::string::npos)
      << remedies(p, Pass::train, "device-memory");
}

}  // namespace breadth_first_test
}  // namespace trainyard::plan
