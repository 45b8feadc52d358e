// Several runs side by side: where they first differ, the table, odd inputs.
#include "tools/inspect/compare.h"

#include "tests/checkpoint/sample.h"
#include "tests/inspect/lines.h"
#include "tests/scratch.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/model_file/model_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::spit;
namespace fs = std::filesystem;

namespace {

struct Runs : ::testing::Test {
  Scratch scratch;
  std::string put(const std::string& name, const std::string& text) {
    fs::create_directories(scratch.path + "/" + name);
    spit(scratch.path + "/" + name + "/metrics.jsonl", text);
    return scratch.path + "/" + name;
  }
  static inspect::Report report(const std::vector<std::string>& paths, inspect::Across across = inspect::Across::step) {
    return inspect::comparison_report(inspect::read_histories(paths), across);
  }
};

std::string with(const std::string& text, const std::string& was, const std::string& is) {
  auto out = text;
  out.replace(out.find(was), was.size(), is);
  return out;
}

}  // namespace

TEST_F(Runs, EqualBitsAreSaidToBe) {
  const auto all = lines::text(1, 12);
  const auto a = put("a", all), b = put("b", lines::text(1, 9));
  const auto r = report({a, b});
  EXPECT_NE(r.text.find("a and b are equal for all 9 common steps, bit for bit"), std::string::npos) << r.text;
  EXPECT_EQ(r.json["last_common_step"], 9);
  EXPECT_EQ(r.json["runs"][1]["against_first"]["equal"], true);
  EXPECT_EQ(r.json["runs"][1]["difference"], 0.0);
  // Other times, hosts and speeds do not make another run.
  const auto moved = put("moved", with(with(all, "n1", "n2"), "500.0", "900.0"));
  EXPECT_EQ(report({a, moved}).json["runs"][1]["against_first"]["equal"], true);
}

TEST_F(Runs, TheFirstDifferentBitIsFound) {
  const auto all = lines::text(1, 12);
  const auto a = put("a", all);
  const double loss = 5.0 / 7, next = std::nextafter(loss, 1.0);
  const auto b = put("b", with(all, fmt::format("\"loss\":{}", loss), fmt::format("\"loss\":{}", next)));
  const auto r = report({a, b, a});
  const auto& first = r.json["runs"][1]["against_first"]["first_difference"];
  EXPECT_EQ(first["step"], 7);
  EXPECT_EQ(first["key"], "loss");
  EXPECT_EQ(first["second"], next);
  EXPECT_EQ(r.json["runs"][2]["against_first"]["equal"], true);
  EXPECT_NE(r.text.find("first differ at step 7: loss"), std::string::npos) << r.text;
  const auto norm = put("norm", with(all, "\"gradient_norm\":0.5", "\"gradient_norm\":0.25"));
  EXPECT_EQ(report({a, norm}).json["runs"][1]["against_first"]["first_difference"]["key"], "gradient norm");
  const auto no_number = put("no_number", with(all, "\"gradient_norm\":0.5", "\"gradient_norm\":\"nan\""));
  EXPECT_EQ(report({a, no_number}).json["runs"][1]["against_first"]["first_difference"]["key"], "gradient norm");
  EXPECT_EQ(report({no_number, no_number}).json["runs"][1]["against_first"]["equal"], true);
  const auto older = put("older", with(all, "\"gradient_norm\":0.5,", ""));
  EXPECT_EQ(report({a, older}).json["runs"][1]["against_first"]["equal"], true);
  const auto validation = put("validation", with(all, "\"validation_loss\":1.375", "\"validation_loss\":1.5"));
  EXPECT_EQ(report({a, validation}).json["runs"][1]["against_first"]["first_difference"]["step"], 4);
}

// A step of which no token counts has no loss, and is no step to compare losses at.
TEST_F(Runs, StepsWithoutALoss) {
  const auto text = [](std::int64_t last, std::int64_t without) {
    std::string out;
    for (std::int64_t step = 1; step <= last; ++step) {
      auto m = lines::of_step(step);
      if (step >= without) m.loss.reset();
      out += engine::to_json_line(m) + "\n";
    }
    return out;
  };
  const auto a = put("a", text(8, 9)), b = put("b", text(9, 6)), none = put("none", text(8, 1));
  const auto r = report({a, b});
  EXPECT_EQ(r.json["last_common_step"], 5);
  EXPECT_EQ(r.json["runs"][1]["loss"], 1.0);
  EXPECT_EQ(r.json["runs"][1]["loss_at_last_common_step"], 1.0);
  EXPECT_EQ(r.json["runs"][1]["difference"], 0.0);
  EXPECT_NE(r.text.find("at 5"), std::string::npos) << r.text;
  const auto empty = report({a, none});
  EXPECT_EQ(empty.json["last_common_step"], 8);
  EXPECT_TRUE(empty.json["runs"][1]["loss"].is_null());
  EXPECT_TRUE(empty.json["runs"][1]["difference"].is_null());
}

TEST_F(Runs, OddRuns) {
  const auto a = put("a", lines::text(1, 6)), late = put("late", lines::text(40, 44)),
             one = put("one", lines::text(3, 3)),
             nan = put("nan", "{\"step\":1,\"loss\":\"nan\"}\n{\"step\":2,\"loss\":\"inf\"}\n"),
             bare = put("bare", "{\"step\":1}\n"), empty = put("empty", ""),
             far = put("far", "{\"step\":0,\"loss\":1}\n{\"step\":9000000000000000000,\"loss\":1}\n"),
             back = put("back", lines::text(5, 6) + lines::text(1, 2)), deep = put("x/a", lines::text(1, 2));
  EXPECT_NE(report({a, late}).text.find("have no step in common"), std::string::npos);
  EXPECT_TRUE(report({a, late}).json["last_common_step"].is_null());
  EXPECT_EQ(report({a, one}).json["last_common_step"], 3);
  EXPECT_EQ(report({nan, nan}).json["runs"][1]["against_first"]["equal"], true);  // NaN equals NaN here
  EXPECT_TRUE(report({a, nan}).json["runs"][1]["loss"].is_null());
  EXPECT_NE(report({bare, bare}).text.find("no run has losses"), std::string::npos);
  EXPECT_NE(report({bare, a}, inspect::Across::tokens).text.find("tokens"), std::string::npos);
  report({far, a, far, back});
  report({back, far, one}, inspect::Across::time);
  EXPECT_EQ(report({a, deep}).json["runs"][1]["name"], "x/a");
  EXPECT_EQ(report({a, a}).json["runs"][1]["name"], "a (2)");
  EXPECT_THROW(report({a, empty}), base::InputError);
  EXPECT_THROW(report({a, scratch.path}), base::InputError);
  EXPECT_THROW(report({a, scratch.path + "/none"}), base::InputError);
  spit(scratch.path + "/plan.json", "{}");
  EXPECT_THROW(report({a, scratch.path + "/plan.json"}), base::InputError);
  EXPECT_THROW(report({a, put("damaged", "{\"step\":1}\nx\n{\"step\":2}\n")}), base::InputError);
}

TEST(Curves, LettersAndDots) {
  using inspect::draw;
  const auto text = draw({{{{0, 0}, {10, 10}}, 'A'}, {{{0, 10}, {10, 0}}, 'B'}}, 40, 12, tools::Glyphs::ascii);
  EXPECT_NE(text.find('A'), std::string::npos) << text;
  EXPECT_NE(text.find('B'), std::string::npos);
  EXPECT_NE(text.find('='), std::string::npos);  // where the two curves meet
  EXPECT_EQ(draw({}, 40, 12, tools::Glyphs::ascii), "");
  EXPECT_EQ(draw({{{{NAN, 1}, {1, INFINITY}}}}, 40, 12, tools::Glyphs::ascii), "");
  EXPECT_NE(draw({{{{3, 3}}}}, 40, 12, tools::Glyphs::ascii).find('*'), std::string::npos);
  EXPECT_NE(draw({{{{3, 3}, {3, 3}}, 'A'}}, 1, 1, tools::Glyphs::unicode).find('A'), std::string::npos);
  const double most = std::numeric_limits<double>::max();
  EXPECT_LT(draw({{{{1, 1}, {2, 2}}}}, 65535, 65535, tools::Glyphs::unicode).size(), 4u << 20);  // huge terminal
  draw({{{{-most, -most}, {most, most}, {1, 1e289}, {2, -1e289}}}}, 40, 12, tools::Glyphs::unicode);
}

// For runs with checkpoints the report also says what else differs.
TEST_F(Runs, WhyTheyDifferIsSaid) {
  const auto saved = [&](const char* name, std::int64_t lanes, int ranks, int tensor) {
    const auto folder = put(name, lines::text(1, 4));
    auto s = sample::state(sample::gpt_of_heads(), base::DType::f32, 4);
    s.model.lanes = lanes;
    s.identity = {{"seed", s.seed}, {"model", plan::model_to_json(s.model)}};
    s.plan = {{"ranks", ranks}, {"tensor", tensor}, {"zero", 1}};
    sample::save(folder + "/checkpoints", s, 1);
    return folder;
  };
  const auto a = saved("a", 4, 4, 2), b = saved("b", 2, 1, 1), bare = put("bare", lines::text(1, 4));
  const auto r = report({a, b, bare});
  EXPECT_NE(r.text.find("a and b are equal for all 4 common steps, bit for bit\n"
                        "  model.lanes: a has 4, b 2\n"
                        "  layout: a has 4 ranks, 2 x 2 tensor, ZeRO 1, 4 lanes; b has 1 rank, ZeRO 1, 2 lanes\n"),
            std::string::npos)
      << r.text;
  EXPECT_TRUE(r.text.ends_with("bit for bit\n")) << r.text;
  const auto& reasons = r.json["runs"][1]["against_first"]["reasons"];
  ASSERT_EQ(reasons.size(), 2u) << r.json.dump(1);
  EXPECT_EQ(reasons[0], nlohmann::json({{"name", "model.lanes"}, {"first", 4}, {"second", 2}}));
  EXPECT_EQ(r.json["runs"][1]["layout"], "ZeRO 1, 2 lanes");
  EXPECT_EQ(r.json["runs"][1]["cut"], r.json["runs"][1]["layout"]);
  EXPECT_TRUE(r.json["runs"][2]["against_first"]["reasons"].empty());
}
