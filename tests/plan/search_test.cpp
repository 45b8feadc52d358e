// Tests the search against all layouts of small spaces, and what it answers.
#include "libtrain/plan/search.h"

#include "libtrain/base/error.h"
#include "libtrain/base/memo.h"
#include "libtrain/plan/blocks/known_model.h"
#include "libtrain/plan/frontier.h"
#include "libtrain/plan/layout_text.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/recompute_choice.h"
#include "libtrain/plan/scale.h"
#include "libtrain/plan/search_answers.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

namespace trainyard::plan {
namespace search_test {

// Four layers, which up to four stages divide.
Plan small(int ranks, std::int64_t global_batch) {
  Plan p;
  p.model = preset("gpt2-micro");
  p.model.vocabulary = 1024, p.model.lanes = 1;
  p.sequence = 256, p.global_batch = global_batch;
  p.device = base::DeviceKind::cuda, p.dtype = base::DType::bf16;
  p.topology = topology_of(p, ranks);
  return p;
}

Machine machine_of_test() {
  auto m = load_machine("dgx-a100-40");
  m.devices_per_node = 4;
  return m;
}

SearchOf search_of(int ranks, std::int64_t global_batch, std::int64_t device_bytes) {
  SearchOf of{small(ranks, global_batch), {}, {device_bytes, 0, 3}, machine_of_test()};
  of.space.offload = of.space.gathered_layers = false;
  return of;
}

// Every layout of the space, one after the other.
struct All {
  double best = std::numeric_limits<double>::infinity();
  std::int64_t fitting = 0;
};
All all_layouts(const SearchOf& of) {
  All out;
  StepTimer timer(of.plan.model, of.machine);
  const int world = of.plan.topology.world();
  for (int t = 1; t <= world; ++t)
    for (int p = 1; world % t == 0 && p <= world / t; ++p) {
      if (world / t % p != 0) continue;
      for (std::int64_t b = 1; b <= of.plan.global_batch; ++b)
        for (int chunks = 1; chunks <= 9; ++chunks)
          for (int zero = 0; zero <= 3; ++zero)
            for (std::int64_t accumulated : {std::int64_t{1}, of.plan.global_batch / b / (world / t / p)}) {
              auto plan = of.plan;
              plan.tensor = t, plan.pipeline = p, plan.micro_batch = b, plan.zero = zero;
              plan.local_accumulation = accumulated;
              const int replicas = world / t / p;
              if (plan.global_batch % (b * replicas) != 0 || accumulated < 1) continue;
              if (chunks > 1 && p == 1) continue;
              if (chunks == 9) plan.pipeline_schedule = PipelineSchedule::zero_bubble;
              else if (chunks > 1) plan.pipeline_schedule = PipelineSchedule::interleaved, plan.virtual_stages = chunks;
              plan.topology = topology_of(plan, world);
              for (const bool split : {false, true}) {
                plan.sequence_parallel = split;
                if (!decision_problems(plan).empty()) continue;
                plan.recompute = fitting_recomputation(plan, of.limits.device_bytes);
                if (memory_with(plan, plan.recompute) > of.limits.device_bytes) continue;
                plan.stages = stages_of(plan);
                ++out.fitting, out.best = std::min(out.best, timer.time(plan).seconds);
              }
            }
    }
  return out;
}

TEST(Search, NoLayoutOfTheSpaceIsBetter) {
  const auto most = memory_with(small(1, 8), {});
  for (const int ranks : {4, 6})
    for (const auto bytes : {most, most - most / 40, std::int64_t{80} << 30}) {
      const auto of = search_of(ranks, 12, bytes);
      const auto all = all_layouts(of);
      const auto found = search(of);
      ASSERT_EQ(found.best.empty(), all.fitting == 0) << ranks << " " << bytes;
      if (found.best.empty()) continue;
      EXPECT_DOUBLE_EQ(found.best.front().time.seconds, all.best) << ranks << " " << bytes;
      const auto& c = found.counts;
      EXPECT_EQ(c.layouts, c.slower + c.refused + c.too_large + c.timed);
      for (std::size_t i = 1; i < found.best.size(); ++i)
        EXPECT_LE(found.best[i - 1].time.seconds, found.best[i].time.seconds);
    }
}

// "--zero 3 --sequence-parallel" as "zero=3,sequence-parallel=on".
std::string as_argument(const std::string& flags) {
  std::istringstream in(flags);
  std::string out;
  bool has_value = true;
  for (std::string word; in >> word;)
    if (word.starts_with("--")) {
      out += (has_value ? "" : "=on") + std::string(out.empty() ? "" : ",") + word.substr(2), has_value = false;
    } else {
      out += "=" + word, has_value = true;
    }
  return out + (has_value ? "" : "=on");
}

TEST(Search, WhatIsFoundFitsAndIsLegal) {
  const auto found = search(search_of(8, 24, std::int64_t{2} << 30));
  ASSERT_FALSE(found.best.empty());
  for (const auto& f : found.best) {
    auto plan = f.plan;
    EXPECT_EQ(text_of(decision_problems(plan)), "");
    predict(plan);
    EXPECT_EQ(plan.memory.total(), f.bytes);
    EXPECT_LE(f.bytes, std::int64_t{2} << 30);
    EXPECT_EQ(layout_text(with_layout(small(8, 24), as_argument(layout_text(plan)), "test")), layout_text(plan));
  }
}

TEST(Search, BoundsAreNotAboveTimes) {
  const auto of = search_of(8, 48, 0);
  StepTimer timer(of.plan.model, of.machine);
  for (const int t : {1, 2, 4})
    for (const int p : {1, 2})
      for (const int chunks : {1, 2, 9}) {
        auto plan = of.plan;
        plan.tensor = t, plan.pipeline = p, plan.sequence_parallel = t > 1, plan.micro_batch = 2;
        if (chunks == 9) plan.pipeline_schedule = PipelineSchedule::zero_bubble;
        else if (chunks > 1 && p > 1)
          plan.pipeline_schedule = PipelineSchedule::interleaved, plan.virtual_stages = chunks;
        plan.topology = topology_of(plan, 8);
        plan.stages = stages_of(plan);
        EXPECT_LE(timer.at_least(plan), timer.time(plan).seconds * (1 + 1e-12)) << t << " " << p << " " << chunks;
      }
}

// One replica reduces nothing, so how it accumulates changes no time.
TEST(Search, OneReplicaHasOneAccumulation) {
  auto of = search_of(4, 12, 0);
  of.plan.pipeline = 4, of.plan.topology = topology_of(of.plan, 4), of.space.pipeline = of.space.tensor = false;
  of.limits.top = 1000;
  const auto found = search(of);
  ASSERT_FALSE(found.best.empty());
  for (const auto& f : found.best) EXPECT_EQ(f.plan.local_accumulation, 1) << layout_text(f.plan);
}

double best_seconds(const SearchOf& of) {
  const auto found = search(of);
  return found.best.empty() ? std::numeric_limits<double>::infinity() : found.best.front().time.seconds;
}

TEST(Search, MoreOfAMachineIsNeverSlower) {
  const auto of = search_of(8, 24, std::int64_t{1500} << 20);
  const auto before = best_seconds(of);
  ASSERT_TRUE(std::isfinite(before));
  for (auto rate :
       {&Machine::flops_16bit, &Machine::memory_bandwidth, &Machine::link_bandwidth, &Machine::network_bandwidth}) {
    auto more = of;
    more.machine.*rate *= 2;
    EXPECT_LE(best_seconds(more), before);
  }
  auto more = of;
  more.limits.device_bytes *= 2;
  EXPECT_LE(best_seconds(more), before);
}

TEST(Search, ChangesThatRoundToNothingHaveNoSign) {
  EXPECT_EQ(change_text({"network", 0.9996}, 1), "0.0 %");
  EXPECT_EQ(change_text({"network", 1.0004}, 1), "0.0 %");
  EXPECT_EQ(change_text({"network", 2}, 2), "0.0 %");
  EXPECT_EQ(change_text({"network", 1.958}, 2), "-2.1 %");
  EXPECT_EQ(change_text({"network", 1.1}, 1), "+10.0 %");
}

// What blocks say of their work is what they say of their FLOPs, for every kind of model.
TEST(Search, WorkHasTheFlopsOfTheModel) {
  Machine machine;
  machine.device = base::DeviceKind::cpu, machine.name = "ideal";
  machine.flops_32bit = 1e12, machine.memory_bandwidth = 1e30, machine.product_share = machine.attention_share = 1;
  for (const auto& name : preset_names()) {
    Plan p;
    p.model = preset(name);
    if (p.model.vocabulary == 0) p.model.vocabulary = 256;
    if (p.model.context < 1024) continue;  // a tile of attention is a large part of these
    p.model.lanes = 1, p.sequence = p.model.context, p.micro_batch = p.global_batch = 8;
    p.stages = stages_of(p);
    const auto time = StepTimer(p.model, machine).time(p);
    predict(p);
    // Attention computes half of the scores where it is causal, and scores once more in backward.
    EXPECT_NEAR(time.products * 1e12 / (p.flops - 3 * time.attention / 3.5 * 1e12 * (p.model.attention.causal ? 2 : 1)),
                1, 0.06)
        << name;
  }
}

TEST(Search, ForgottenMemosChangeNothing) {
  const auto of = search_of(4, 8, std::int64_t{2} << 30);
  const auto before = search(of);
  const auto known = known_model(of.plan.model);
  EXPECT_EQ(known_model(of.plan.model), known);
  base::forget_memos();
  EXPECT_NE(known_model(of.plan.model), known);
  const auto after = search(of);
  EXPECT_EQ(after.counts.timed, before.counts.timed);
  ASSERT_EQ(after.best.size(), before.best.size());
  ASSERT_FALSE(after.best.empty());
  for (std::size_t i = 0; i < after.best.size(); ++i) {
    EXPECT_EQ(layout_text(after.best[i].plan), layout_text(before.best[i].plan));
    EXPECT_EQ(after.best[i].time.seconds, before.best[i].time.seconds);
    EXPECT_EQ(after.best[i].bytes, before.best[i].bytes);
  }
}

// What does not fit is not timed as long as nothing is slower, also where a rate is missing.
TEST(Search, MissingRatesRefuseAlsoWhereNothingFits) {
  auto of = search_of(8, 32, 1);
  const auto with_all = search(of);
  EXPECT_GT(with_all.counts.too_large, 0);
  EXPECT_EQ(with_all.counts.timed, 0);
  of.machine.network_bandwidth = 0;
  const auto without = search(of);
  EXPECT_EQ(without.counts.too_large, 0);
  EXPECT_GT(without.counts.refused, with_all.counts.refused);
  // What lacks a rate is not what is said of layouts that the model cannot have.
  const auto none = why_none(of, without);
  EXPECT_EQ(none.why, "the machine dgx-a100-40 has no network-bandwidth, which 8 ranks need");
  EXPECT_THROW(none.refuse("more memory"), base::InputError);
}

// Where nothing fits with all layers recomputed, a layer is gathered at a time, which hides neither gathers nor
// reductions.
TEST(Search, LayersAreGatheredOneAtATimeWhereNothingElseFits) {
  auto of = search_of(4, 16, 0);
  of.plan.zero = 3, of.plan.micro_batch = 1;
  of.space.tensor = of.space.pipeline = of.space.zero = of.space.micro_batch = false;
  auto full = of.plan;
  full.gathered_layers = 1, full.recompute = Recompute::layers, full.stages = stages_of(full);
  of.limits.device_bytes = memory_with(full, full.recompute);
  EXPECT_TRUE(search(of).best.empty());
  of.space.gathered_layers = true;
  const auto found = search(of);
  ASSERT_FALSE(found.best.empty());
  const auto& best = found.best.front();
  EXPECT_EQ(best.plan.gathered_layers, 1);
  EXPECT_LE(best.bytes, of.limits.device_bytes);
  EXPECT_NE(layout_text(best.plan).find("--gathered-layers 1"), std::string::npos) << layout_text(best.plan);
  auto two = best.plan;
  two.gathered_layers = 2;
  EXPECT_GT(best.time.seconds, StepTimer(of.plan.model, of.machine).time(two).seconds);
}

// The answer names what was asked, also values that the plan has anyway, and offers no change that hardly helps.
TEST(Search, AnAnswerNamesWhatWasAsked) {
  const auto of = search_of(8, 24, std::int64_t{2} << 30);
  const auto best = search(of).best.front();
  const auto text = why_not(of, "zero=0,tensor-parallel=1", "--why-not", best);
  EXPECT_TRUE(text.starts_with("zero=0,tensor-parallel=1")) << text;
  EXPECT_EQ(text.find("most of the difference"), std::string::npos) << text;
}

TEST(Search, ASettingIsNamedOnce) {
  EXPECT_EQ(with_layout(small(8, 24), "zero=3,offload=optimizer=host,parameters=host", "--why-not").zero, 3);
  EXPECT_THROW(with_layout(small(8, 24), "zero=3,zero=2", "--why-not"), base::UsageError);
}

TEST(Search, ABatchThatDoesNotDivideIsNamedBeforeSharedLayers) {
  const auto of = search_of(9, 8, 0);
  const auto none = why_none(of, search(of));
  EXPECT_NE(none.why.find("a global batch of 8 does not divide among 9 replicas, and --tensor-parallel 3"),
            std::string::npos)
      << none.why;
  EXPECT_NE(none.hint.find("--global-batch that 9 divides"), std::string::npos) << none.hint;
  EXPECT_THROW(none.refuse("more memory"), base::UsageError);
}

// States that do not fit would lie on the host, over a link of which the machine says nothing.
TEST(Search, LayoutsWithoutATimeAreCountedOnceAndNamed) {
  auto of = search_of(2, 4, std::int64_t{80} << 30);
  of.plan.model = preset("gpt2-xl");
  of.plan.model.vocabulary = 1024, of.plan.model.lanes = 1;
  while (!search(of).best.empty()) of.limits.device_bytes -= of.limits.device_bytes / 20;
  of.space.offload = true;
  const auto with_all = search(of);
  EXPECT_FALSE(with_all.best.empty());
  EXPECT_EQ(with_all.missing_rate, "");
  of.machine.host_link_bandwidth = of.machine.host_bandwidth = 0;
  const auto found = search(of);
  const auto& c = found.counts;
  EXPECT_TRUE(found.best.empty());
  EXPECT_EQ(c.layouts, c.slower + c.refused + c.too_large + c.timed);
  EXPECT_GT(c.refused, 0);
  EXPECT_GT(c.too_large, 0);
  EXPECT_NE(found.missing_rate.find("has no host-bandwidth"), std::string::npos) << found.missing_rate;
  const auto none = why_none(of, found);
  EXPECT_NE(none.why.find("of some of them no time is known: the machine"), std::string::npos) << none.why;
  EXPECT_NE(none.hint.find("--machine FILE.toml"), std::string::npos) << none.hint;
}

TEST(Search, FixedSettingsStay) {
  auto of = search_of(8, 24, 0);
  of.plan.zero = 2, of.space.zero = false;
  of.plan.tensor = 2, of.plan.sequence_parallel = true, of.space.tensor = of.space.sequence_parallel = false;
  of.plan.topology = topology_of(of.plan, 8);
  const auto found = search(of);
  ASSERT_FALSE(found.best.empty());
  for (const auto& f : found.best) EXPECT_EQ(std::pair(f.plan.zero, f.plan.tensor), std::pair(2, 2));
}

TEST(Search, WhyALayoutIsNotTheBest) {
  const auto of = search_of(8, 24, std::int64_t{80} << 30);
  const auto best = search(of).best.front();
  const auto why = [&](const std::string& layout, std::int64_t bytes = std::int64_t{80} << 30) {
    auto limited = of;
    limited.limits.device_bytes = bytes;
    return why_not(limited, layout, "--why-not", best);
  };
  EXPECT_NE(why("tensor-parallel=3").find("is refused: "), std::string::npos) << why("tensor-parallel=3");
  EXPECT_NE(why("zero=1,micro-batch=3", 1 << 30).find("does not fit: "), std::string::npos);
  const std::string others = ",local-accumulation=1,micro-batch=1,pipeline-parallel=1,zero=0,recompute=none";
  const auto slow = why("tensor-parallel=4,sequence-parallel=on" + others + ",reduction-ranks-per-node=1");
  EXPECT_NE(slow.find("times the best"), std::string::npos) << slow;
  EXPECT_NE(slow.find("tensor-parallel calls"), std::string::npos) << slow;
  EXPECT_NE(slow.find("--tensor-parallel 1 alone takes"), std::string::npos) << slow;
  EXPECT_EQ(slow.find("at best"), std::string::npos) << slow;  // everything is named
  // What is not named is that of the best of these layouts.
  auto four = of;
  four.plan.tensor = 4, four.plan.topology = topology_of(four.plan, 8), four.space.tensor = false;
  const auto best_of_four = search(four).best.front();
  const auto open = why("tensor-parallel=4");
  EXPECT_TRUE(open.starts_with("--tensor-parallel 4, at best with " + layout_text(best_of_four.plan, four.plan) +
                               ", takes " + step_seconds_text(best_of_four.time.seconds) + " a step, "))
      << open;
  // Four bytes of master and eight of moments, for each parameter, over eight ranks.
  auto on_host = of;
  const auto states = 12 * parameter_count(of.plan.model) / 8;
  for (const auto& [host_bytes, fits] :
       {std::pair{states - states / 10, false}, {2 * states, true}, {states * 0, true}}) {
    on_host.limits.host_bytes = host_bytes;
    const auto text = why_not(on_host, "zero=1,offload=optimizer=host", "--why-not", best);
    EXPECT_EQ(text.find("does not fit: ") == std::string::npos, fits) << text;
    EXPECT_EQ(text.find("of its GPU's host but --host-memory is") == std::string::npos, fits) << text;
  }
  EXPECT_THROW(with_layout(of.plan, "tensor-parallel", "--why-not"), base::UsageError);
  EXPECT_THROW(with_layout(of.plan, "tensors=2", "--why-not"), base::Error);
}

TEST(Search, FewestNodesAndLargestModel) {
  auto of = search_of(4, 8, 0);
  of.space.schedule = of.space.micro_batch = false;
  of.plan.model.layers = 24, of.plan.model.hidden = 1024, of.plan.model.ffn = 4096, of.plan.model.heads = 8;
  of.plan.model.kv_heads = 8;
  of.limits.device_bytes = std::int64_t{1800} << 20;
  const auto fewest = fewest_nodes(of, 16);
  ASSERT_TRUE(fewest);
  EXPECT_GT(fewest->nodes, 1);
  for (int nodes = 1; nodes < fewest->nodes; ++nodes) {
    auto fewer = of;
    fewer.plan = on_ranks(of.plan, nodes * of.machine.devices_per_node);
    EXPECT_TRUE(search(fewer).best.empty()) << nodes;
  }
  const auto largest = largest_model(of);
  ASSERT_TRUE(largest);
  auto deeper = of;
  deeper.plan.model.layers = largest->plan.model.layers + 1;
  EXPECT_TRUE(search(deeper).best.empty());
  EXPECT_LT(largest->plan.model.layers, 24);
}

TEST(Search, NumbersOfNodesAndLayers) {
  const auto read = [](const std::string& text) { return scale_of_text(text, "--scale", machine_of_test()); };
  using Values = std::vector<std::int64_t>;
  EXPECT_EQ(read("nodes=1:128").values, (Values{1, 2, 4, 8, 16, 32, 64, 128}));
  EXPECT_EQ(read("nodes=3:20").values, (Values{3, 6, 12}));
  EXPECT_EQ(read("nodes=1,2,3,6").values, (Values{1, 2, 3, 6}));
  EXPECT_EQ(read("nodes=5").values, (Values{5}));
  EXPECT_EQ(read("nodes=262144").values, (Values{262144}));  // 1,048,576 ranks of 4 a node
  EXPECT_EQ(read("layers=12:96").values, (Values{12, 24, 48, 96}));
  EXPECT_EQ(read("layers=12:96").what, Scaled::layers);
  for (const char* text : {"", "nodes", "ranks=1:2", "nodes=", "nodes=0:4", "nodes=4:1", "nodes=1:", "nodes=1:2:3",
                           "nodes=1,,2", "nodes=2,1", "nodes=2,2", "nodes=1.5", "nodes=-1", "nodes=262145",
                           "nodes=1:9223372036854775807", "layers=10001", "nodes=99999999999999999999"})
    EXPECT_THROW(read(text), base::UsageError) << text;
}

TEST(Search, MoreNodesOneAfterTheOther) {
  const auto of = search_of(4, 24, 0);
  const auto one = scaled(of, Scaled::nodes, 1), two = scaled(of, Scaled::nodes, 2);
  ASSERT_TRUE(one.best.found && two.best.found);
  EXPECT_EQ(std::pair(one.ranks, two.ranks), std::pair(4, 8));
  EXPECT_EQ(one.best.found->time.seconds, best_seconds(of));
  EXPECT_EQ(two.best.found->time.seconds, best_seconds(search_of(8, 24, 0)));
  EXPECT_DOUBLE_EQ(efficiency(*two.best.found, *one.best.found),
                   one.best.found->time.seconds / two.best.found->time.seconds / 2);
  auto deeper = of;
  deeper.plan.model.layers = 8;
  EXPECT_EQ(scaled(of, Scaled::layers, 8).best.found->time.seconds, best_seconds(deeper));

  auto fixed = search_of(4, 6, 0);
  fixed.space.tensor = fixed.space.pipeline = false;
  const auto undivided = scaled(fixed, Scaled::nodes, 1);
  EXPECT_FALSE(undivided.best.found);
  EXPECT_EQ(undivided.best.why_none, "no layout divides a global batch of 6 among 4 ranks");
  auto small_devices = of;
  small_devices.limits.device_bytes = 1 << 20;
  EXPECT_NE(scaled(small_devices, Scaled::nodes, 1).best.why_none.find("a rank on 4 ranks"), std::string::npos);
  auto experts = of;
  experts.plan.model.experts.count = {4, 8};
  EXPECT_NE(scaled(experts, Scaled::layers, 3).best.why_none, "");  // experts of two layers, and three
}

TEST(Search, LessAndLessMemory) {
  auto of = search_of(2, 12, std::int64_t{80} << 30);
  of.plan.model.hidden = 1024, of.plan.model.ffn = 4096, of.plan.model.heads = of.plan.model.kv_heads = 8;
  of.space.schedule = false;
  int heard = 0;
  const auto all = frontier(of, 5, [&](int done, int most) {
    EXPECT_EQ(done, ++heard);
    EXPECT_LE(done, most);
  });
  const auto seconds_in = [&](std::int64_t bytes) {
    auto other = of;
    other.limits.device_bytes = bytes;
    return best_seconds(other);
  };
  ASSERT_GE(all.size(), 3u);
  EXPECT_GE(heard, 5);
  EXPECT_EQ(all.back().time.seconds, seconds_in(of.limits.device_bytes));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].time.seconds, seconds_in(all[i].bytes)) << i;
    EXPECT_GT(seconds_in(all[i].bytes - 1), all[i].time.seconds) << i;
    if (i == 0) continue;
    EXPECT_LT(all[i - 1].bytes, all[i].bytes);
    EXPECT_GT(all[i - 1].time.seconds, all[i].time.seconds);
  }
  EXPECT_TRUE(std::isinf(seconds_in(all.front().bytes * 96 / 100)));
  int searches = 0;
  EXPECT_LT(frontier(of, 40, [&](int done, int) { searches = done; }).size(), 20u);
  EXPECT_LT(searches, 30);  // where a layout is the best of several memories, it is found once
  of.limits.device_bytes = 1 << 20;
  EXPECT_TRUE(frontier(of, 5).empty());
}

TEST(Search, PlansKeepTheirStepTime) {
  const auto of = search_of(8, 24, 0);
  auto plan = search(of).best.front().plan;
  predict(plan);
  plan.step = predicted_step(step_interval(plan, of.machine), of.machine);
  const auto read = plan_from_json(to_json(plan), "test");
  EXPECT_EQ(read.step, plan.step);
  double sum = 0;
  for (const auto& [key, seconds] : read.step.parts) sum += seconds;
  EXPECT_NEAR(sum, read.step.median, 1e-12);
  EXPECT_LT(read.step.low, read.step.median);
  EXPECT_GT(read.step.high, read.step.median);
}

// Both nodes of four devices then send a sum, in place of every device its gradients.
TEST(Search, AddsInsideNodesWhereTheNetworkIsSlow) {
  auto of = search_of(8, 24, std::int64_t{80} << 30);
  of.machine.network_bandwidth = 1e9;
  of.space.tensor = of.space.pipeline = false;
  const auto best = search(of).best.front();
  EXPECT_EQ(best.plan.reduction_ranks_per_node, 4);
  EXPECT_NE(layout_text(best.plan).find("--reduction-ranks-per-node 4"), std::string::npos);
  of.space.reduction_nodes = false;
  EXPECT_GT(search(of).best.front().time.seconds, 1.2 * best.time.seconds);
}

}  // namespace search_test
}  // namespace trainyard::plan
