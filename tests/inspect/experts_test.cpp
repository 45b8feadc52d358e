// What inspect --experts makes of metrics: rows of steps, numbers, drawings. Also lines of older versions and of other
// models.
#include "tools/inspect/experts.h"

#include "libtrain/base/error.h"
#include "tests/inspect/lines.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::spit;

namespace {

engine::LayerGate gate(std::int64_t layer, double fullest, double dropped_share) {
  engine::LayerGate g;
  g.layer = layer, g.experts = 4, g.fullest = fullest, g.emptiest = 0.25, g.dropped_share = dropped_share;
  g.balance_loss = 1.5, g.z_loss = 2.5, g.entropy = 1.25;
  return g;
}

// In the second half of the steps, layer 1 becomes uneven and drops half; layer 3 does not change.
std::string text_of(std::int64_t from, std::int64_t to, std::int64_t half) {
  std::string out;
  for (auto step = from; step <= to; ++step) {
    auto m = lines::of_step(step, to);
    const bool late = step > half;
    m.gates.emplace().layers = {gate(1, late ? 3 : 1, late ? 0.5 : 0), gate(3, 2, 0)};
    out += engine::to_json_line(m) + "\n";
  }
  return out;
}

class Experts : public ::testing::Test {
 protected:
  inspect::ExpertHistory read(const std::string& text) {
    spit(path, text);
    return inspect::read_expert_history(path);
  }
  std::string drawn(const std::string& text, int columns) {
    return inspect::experts_text(read(text), columns, tools::Glyphs::ascii);
  }
  Scratch scratch;
  std::string path = scratch.path + "/metrics.jsonl";
};

int times(const std::string& text, const std::string& what) {
  int n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_F(Experts, ARowForEachLayer) {
  EXPECT_EQ(drawn(text_of(1, 20, 10), 80),
            R"(2 layers with experts, 20 steps

load of the fullest expert (1.00: as many choices as all on average)
layer 1 |..........@@@@@@@@@@| 3.00
layer 3 |++++++++++++++++++++| 2.00
         step 1            20
. 1.00, @ 3.00; a column is 1 step; numbers at the right: the last step

choices that got no place
layer 1 |..........@@@@@@@@@@| 50.0 %
layer 3 |....................| 0.0 %
         step 1            20
. 0.0 %, @ 50.0 %; a column is 1 step; numbers at the right: the last step

layer  experts  fullest       worst  emptiest  dropped         worst  balance    z  entropy
    1        4     3.00  3.00 at 11      0.25   50.0 %  50.0 % at 11      1.5  2.5     1.25
    3        4     2.00   2.00 at 1      0.25    0.0 %    0.0 % at 1      1.5  2.5     1.25
numbers of the last step; worst: the worst value and its step
losses before their coefficients are applied; entropy in nats
)");
}

// With more steps than columns, a column is the mean of its steps: 41 columns of 3 steps, the 21st of steps 61 to 63.
TEST_F(Experts, AColumnIsTheMeanOfItsSteps) {
  const auto text = drawn(text_of(1, 123, 62), 60);
  EXPECT_NE(text.find("layer 1 |....................-@@@@@@@@@@@@@@@@@@@@| 3.00\n"), std::string::npos) << text;
  EXPECT_NE(text.find("a column is 3 steps;"), std::string::npos) << text;
  // Steps without a line are left blank.
  const auto gap = drawn(text_of(1, 5, 62) + text_of(11, 15, 62), 80);
  EXPECT_NE(gap.find("layer 3 |@@@@@     @@@@@| 2.00\n"), std::string::npos) << gap;
  EXPECT_NE(gap.find("every choice got a place\n"), std::string::npos) << gap;
}

TEST_F(Experts, LinesWithoutThemArePassedOver) {
  auto history = read(lines::text(1, 3) + text_of(4, 6, 5) + lines::text(7, 9));
  EXPECT_EQ(history.steps, 3);
  EXPECT_EQ(history.first, 4);
  EXPECT_EQ(history.last, 6);
  ASSERT_EQ(history.layers.size(), 2u);
  EXPECT_EQ(history.layers[0].samples.size(), 3u);
  try {
    read(lines::text(1, 3));
    ADD_FAILURE() << "a run without experts has been drawn";
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("metrics.jsonl says nothing of experts"), std::string::npos) << e.what();
  }
  // Lines that lack what is expected, or contain impossible values.
  for (const char* line :
       {R"({"step":1,"experts":4})", R"({"step":1,"experts":{"layers":{}}})", R"({"step":1,"experts":{"layers":[4]}})",
        R"({"step":1,"experts":{"layers":[{"layer":-1}]}})", R"({"step":1,"experts":{"layers":[{"layer":"1"}]}})",
        R"({"step":9223372036854775807,"experts":{"layers":[{"layer":1}]}})"})
    EXPECT_THROW(read(std::string(line) + "\n"), base::InputError) << line;
  history = read(R"({"step":1,"experts":{"layers":[{"layer":1,"fullest":"inf","emptiest":null}]}})"
                 "\n");
  EXPECT_TRUE(std::isinf(history.layers.at(0).samples.at(0).fullest));
  EXPECT_TRUE(std::isnan(history.layers[0].samples[0].emptiest));
  EXPECT_NE(inspect::experts_text(history, 80, tools::Glyphs::ascii).find("layer 1 | |"), std::string::npos);
}

TEST_F(Experts, JsonHasEveryNumber) {
  const auto json = inspect::experts_json(read(text_of(1, 4, 2)));
  EXPECT_EQ(json.at("steps"), 4);
  const auto& layers = json.at("layers");
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[1].at("layer"), 3);
  EXPECT_EQ(layers[0].at("experts"), 4);
  EXPECT_EQ(layers[0].at("fullest").dump(), "[[1,1.0],[2,1.0],[3,3.0],[4,3.0]]");
  EXPECT_EQ(layers[0].at("dropped_share").dump(), "[[1,0.0],[2,0.0],[3,0.5],[4,0.5]]");
  for (const char* key : {"emptiest", "balance_loss", "z_loss", "entropy"})
    EXPECT_EQ(layers[0].at(key).size(), 4u) << key;
}

TEST_F(Experts, ADrawingHasABarForEachStep) {
  const auto svg = inspect::experts_drawing(read(text_of(1, 20, 10)), "a <run>");
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_NE(svg.find("a &lt;run&gt;"), std::string::npos);
  EXPECT_EQ(times(svg, "<title>layer 1, step "), 40);  // in both panels
  EXPECT_EQ(times(svg, "<title>layer 3, step "), 40);
  EXPECT_EQ(times(svg, "<title>layer 1, step 11: 3.00</title>"), 1);
  EXPECT_EQ(times(svg, "<title>layer 1, step 11: 50.0 %</title>"), 1);
  EXPECT_NE(svg.find("load of the fullest expert, 1.00 to 3.00"), std::string::npos);
  for (const char* label : {">1.00<", ">3.00<", ">0.0 %<", ">50.0 %<"}) EXPECT_EQ(times(svg, label), 2) << label;
  const auto even = inspect::experts_drawing(read(text_of(1, 1000, 1000)), "run");
  EXPECT_EQ(times(even, "<title>layer 1, steps "), 200);
  EXPECT_EQ(times(even, "choices that got no place"), 0);
}
