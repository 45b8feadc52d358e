// The table of a plan in both of its forms, the picture of its step, and what searches found.
#include "tools/common/plan_text.h"
#include "libtrain/plan/spec/presets.h"
#include "tools/common/search_report.h"
#include "tools/common/step_drawing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace trainyard {
namespace {

plan::Plan sample(int ranks) {
  plan::Plan p;
  p.model = plan::preset("gpt2-micro");
  p.model.vocabulary = 257, p.model.lanes = 1;
  p.sequence = 256, p.micro_batch = 4, p.global_batch = 32, p.zero = 3;
  p.topology = plan::Topology({{plan::Axis::data, ranks}});
  plan::predict(p);
  return p;
}

TEST(PlanText, SizesForPeopleAndToTheByte) {
  const auto p = sample(4);
  const auto rounded = tools::plan_table(p, base::Sizes::rounded), exact = tools::plan_table(p, base::Sizes::exact);
  EXPECT_NE(rounded.find("parameters  859,008\n"), std::string::npos) << rounded;
  EXPECT_NE(rounded.find(fmt::format(" {}\n", base::size_text(p.memory.total()))), std::string::npos) << rounded;
  EXPECT_NE(exact.find(fmt::format(" {}\n", p.memory.total())), std::string::npos) << exact;
  EXPECT_EQ(rounded.find(std::to_string(p.memory.total())), std::string::npos);
  std::istringstream a(rounded), b(exact);
  for (std::string x, y; std::getline(a, x) && std::getline(b, y);)
    if (x.starts_with("  ") && x.find("textbook") == std::string::npos && x.find(" to replicas") == std::string::npos) {
      EXPECT_EQ(x.size(), y.size()) << x << "\n" << y;
    }
}

TEST(PlanText, OneIsNotMany) {
  const auto text = tools::plan_table(sample(1), base::Sizes::rounded);
  EXPECT_NE(text.find("layout      1 rank, "), std::string::npos) << text;
  EXPECT_NE(text.find("1 thread a rank"), std::string::npos) << text;
  EXPECT_NE(text.find("one rank sends nothing"), std::string::npos) << text;
}

TEST(PlanText, SaysOfWhomAndNothingOfWhatIsNotSent) {
  auto p = sample(2);
  p.model.lanes = 2;
  p.tensor = 2, p.topology = plan::replicas_of(2, 2);
  plan::predict(p);
  const auto text = tools::plan_table(p, base::Sizes::rounded);
  EXPECT_NE(text.find("\n  what each of these ranks sends a step\n  ranks       group   operation "), std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  0-1         tensor  "), std::string::npos) << text;
  EXPECT_EQ(text.find(" data "), std::string::npos) << "one replica sends nothing to others: " << text;
  EXPECT_NE(text.find("\n  gathered weights "), std::string::npos) << text;
  EXPECT_EQ(text.find("gathered_units"), std::string::npos) << text;
  EXPECT_NE(text.find("by the textbook (2 ranks; no padding, no buffers): "), std::string::npos) << text;
}

// Pipeline stages that send the same share one line. A note says what ZeRO and local accumulation cost in each
// accumulation step.
TEST(PlanText, SaysWhatEachStageSends) {
  auto p = sample(8);
  p.pipeline = 4, p.topology = plan::replicas_of(8, 1, 4), p.micro_batch = 1, p.zero = 1, p.partition = "0,2,3,4";
  plan::predict(p);
  auto text = tools::plan_table(p, base::Sizes::rounded);
  EXPECT_NE(text.find("\n  stage  items "), std::string::npos) << text;
  EXPECT_NE(text.find(" tokens, 16 accumulation steps, "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  a rank of stage 0, which needs most     size\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  stage  ranks       group   operation "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  1-2    2-5         pipe    activations "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  3      6-7         stages  all_gather "), std::string::npos) << text;
  EXPECT_NE(text.find("gradients are reduced in each of 16 accumulation steps, at every ZeRO stage: "),
            std::string::npos);
  EXPECT_NE(text.find("--local-accumulation 16 reduces less often, rounded differently: "), std::string::npos);
  const auto sent = [](const plan::Plan& q) {
    std::int64_t most = 0;
    for (const auto& t : q.traffic) {
      std::int64_t bytes = 0;
      for (const auto& o : t.operations) bytes += o.group == plan::CallGroup(plan::Axis::data) ? o.bytes : 0;
      most = std::max(most, bytes);
    }
    return base::size_text(most);
  };
  EXPECT_NE(text.find("at every ZeRO stage: " + sent(p) + " to replicas\n"), std::string::npos) << text;
  auto accumulated = p, third = p;
  accumulated.local_accumulation = 16, third.zero = 3;
  plan::predict(accumulated), plan::predict(third);
  EXPECT_NE(text.find("rounded differently: " + sent(accumulated) + " to replicas, and " +
                      base::size_text(accumulated.memory.total()) + " of memory a rank\n"),
            std::string::npos)
      << text;
  text = tools::plan_table(third, base::Sizes::rounded);
  EXPECT_NE(text.find("ZeRO 3 gathers weights for every micro-batch: " + sent(third) + " to replicas; --zero 1 sends " +
                      sent(p) + "\n"),
            std::string::npos)
      << text;
  // The same with one stage.
  auto one = p;
  one.pipeline = 1, one.topology = plan::replicas_of(8, 1, 1), one.partition = "flops",
  one.stages = plan::stages_of(one);
  plan::predict(one);
  text = tools::plan_table(one, base::Sizes::rounded);
  auto added = one;
  added.local_accumulation = one.batch().accumulation_steps();
  plan::predict(added);
  EXPECT_NE(text.find(fmt::format("--local-accumulation {} reduces less often, rounded differently: {} to replicas",
                                  added.local_accumulation, sent(added))),
            std::string::npos)
      << text;
  text = tools::plan_table(accumulated, base::Sizes::rounded);
  EXPECT_EQ(text.find("--local-accumulation"), std::string::npos) << "one round, nothing to save: " << text;
}

std::int64_t count_of(const std::string& text, const std::string& what) {
  std::int64_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Two stages of two replicas of two tensor-parallel ranks, on nodes of four devices.
plan::Plan of_stages(std::int64_t global_batch) {
  auto p = sample(8);
  p.zero = 1, p.micro_batch = 1, p.global_batch = global_batch;
  p.tensor = p.pipeline = 2, p.model.lanes = 2, p.topology = plan::replicas_of(8, 2, 2);
  p.device = base::DeviceKind::cuda, p.device_memory = 2'000'000'000;
  p.stages = plan::stages_of(p);
  return p;
}
std::string drawn(const plan::Plan& p) {
  auto machine = plan::load_machine("dgx-a100-80");
  machine.devices_per_node = 4;
  plan::StepTimer timer(p.model, machine);
  return tools::step_drawing(p, timer.run(p), timer.time(p), machine);
}

TEST(StepDrawing, PassesMemoryAndRanks) {
  const auto p = of_stages(16);
  const auto svg = drawn(p);
  EXPECT_EQ(count_of(svg, ", forward of micro-batch "), 16) << "8 of a replica in each of two stages";
  EXPECT_EQ(count_of(svg, ", backward of micro-batch "), 16);
  EXPECT_EQ(count_of(svg, "<title>data-parallel calls: "), 2);
  EXPECT_NE(svg.find(">a step of "), std::string::npos);
  EXPECT_NE(svg.find("a device has 2.00 GB"), std::string::npos);
  for (int stage = 0; stage < 2; ++stage) {
    const auto memory = plan::memory_of_stage(p, stage);
    for (const auto& [name, bytes] : {std::pair{"reserve", memory.reserve},
                                      std::pair{"activations", memory.categories[base::MemoryCategory::activations]},
                                      std::pair{"parameters", memory.categories[base::MemoryCategory::parameters]}})
      EXPECT_NE(svg.find(fmt::format("<title>stage {}, {}: {}</title>", stage, name, base::size_text(bytes))),
                std::string::npos)
          << stage << " " << name;
  }
  EXPECT_EQ(count_of(svg, "<title>rank "), 8);
  EXPECT_NE(svg.find("<title>rank 6: pipeline stage 1, replica 1, tensor-parallel rank 0</title>"), std::string::npos);
  EXPECT_NE(svg.find("ranks of 2 nodes"), std::string::npos);
}

TEST(StepDrawing, OfManyPassesTheFirst) {
  const auto svg = drawn(of_stages(1200));  // 600 micro-batches of a replica, two passes of each in two stages
  const auto passes = count_of(svg, " of micro-batch ");
  EXPECT_LE(passes, 2000);
  EXPECT_GE(passes, 1990);
  EXPECT_EQ(count_of(svg, "<title>data-parallel calls: "), 0) << "they follow what is not drawn";
  EXPECT_NE(svg.find(">the first "), std::string::npos);
}

plan::FoundPlan found_on(int ranks, double seconds) {
  auto p = sample(ranks);
  plan::FoundPlan out{p, {}, 3'000'000'000};
  out.time.seconds = out.time.products = seconds;
  return out;
}

TEST(SearchReport, Scaling) {
  const std::vector<plan::ScalePoint> points{
      {1, 4, {found_on(4, 2), ""}}, {3, 12, {{}, "too much"}}, {4, 16, {found_on(16, 0.625), ""}}};
  const auto text = tools::scale_table(plan::Scaled::nodes, points);
  // 32 sequences of 256 tokens in 2 s on 4 ranks, and in 0.625 s on 16.
  EXPECT_NE(text.find("    1      4  2.00 s   4,100 tokens/s"), std::string::npos) << text;
  EXPECT_NE(text.find("    4     16  625 ms  13,100 tokens/s"), std::string::npos) << text;
  EXPECT_NE(text.find(" 100 %  --zero 3 --micro-batch 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" 80 %  --zero 3 --micro-batch 4\n"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\n3 nodes: too much\n")) << text;
  std::istringstream lines(tools::scale_json(plan::Scaled::nodes, points));
  std::vector<nlohmann::json> json;
  for (std::string line; std::getline(lines, line);) json.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[1], (nlohmann::json{{"nodes", 3}, {"ranks", 12}, {"why_none", "too much"}}));
  EXPECT_EQ(json[2]["nodes"], 4);
  EXPECT_DOUBLE_EQ(json[2]["efficiency"], 0.8);
  EXPECT_DOUBLE_EQ(json[2]["tokens_per_second"], 32 * 256 / 0.625);
  const auto svg = tools::scale_drawing(plan::Scaled::nodes, points, "a machine");
  EXPECT_NE(svg.find(">ideal<"), std::string::npos);
  EXPECT_EQ(count_of(svg, "class=\"dot\""), 4);
  const auto layers = tools::scale_drawing(plan::Scaled::layers, points, "a machine");
  EXPECT_EQ(layers.find(">ideal<"), std::string::npos);
  EXPECT_NE(tools::scale_table(plan::Scaled::layers, points).find("layers  parameters"), std::string::npos);
}

TEST(SearchReport, TimeOverMemory) {
  auto small = found_on(4, 3);
  small.bytes = 1'500'000'000;
  const std::vector<plan::FoundPlan> all{small, found_on(4, 2)};
  const auto text = tools::frontier_table(all);
  EXPECT_NE(text.find("1.50 GB  3.00 s            1.50"), std::string::npos) << text;
  EXPECT_NE(text.find("3.00 GB  2.00 s            1.00"), std::string::npos) << text;
  EXPECT_EQ(count_of(tools::frontier_json(all), "\"rank_bytes\""), 2);
  const auto svg = tools::frontier_drawing(all, 80'000'000'000, "a machine");
  EXPECT_EQ(count_of(svg, "class=\"dot\""), 2);
  // Until there is room for the next layout, the one before it is the best: three points, the second at the height of
  // the first and below the third.
  const auto begin = svg.find("points=\"") + 8, end = svg.find('"', begin);
  std::istringstream points(svg.substr(begin, end - begin));
  std::vector<std::pair<std::string, std::string>> line;
  for (std::string point; points >> point;)
    line.emplace_back(point.substr(0, point.find(',')), point.substr(point.find(',') + 1));
  ASSERT_EQ(line.size(), 3u) << svg;
  EXPECT_EQ(line[0].second, line[1].second);
  EXPECT_EQ(line[1].first, line[2].first);
  EXPECT_NE(line[1].second, line[2].second);
  EXPECT_NE(svg.find("no faster layout up to the 80.0 GB of a device"), std::string::npos);
}

}  // namespace
}  // namespace trainyard
