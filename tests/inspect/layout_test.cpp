// What inspect --layout reports and draws, compared sign by sign with the written-down blocks of each rule.
#include "tools/inspect/layout.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/plan_json.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <sstream>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::spit;

namespace layout_test {

struct Layout : ::testing::Test {
  inspect::Layouts read(const std::string& attention, const std::string& model = "layers = 4\ncontext = 512\n") {
    spit(path, model + "[attention]\n" + attention);
    return inspect::read_layouts(path, options);
  }
  std::string text(const std::string& attention, const std::string& model = "layers = 4\ncontext = 512\n") {
    return inspect::layouts_text(read(attention, model), 80, tools::Glyphs::ascii);
  }
  std::string refusal(const std::string& attention) {
    try {
      read(attention);
    } catch (const base::Error& e) {
      return e.what();
    }
    return "nothing is refused";
  }
  Scratch scratch;
  std::string path = scratch.path + "/m.toml";
  inspect::LayoutOptions options;
};

// The rows of signs, "11100000 ..."; in the drawing each sign is two characters wide, behind the row's number.
std::string rows(const std::string& drawn) {
  std::istringstream lines(drawn);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_of(".#");
    if (begin == std::string::npos || line.find_first_not_of(" 0123456789") != begin) continue;
    out += out.empty() ? "" : " ";
    for (auto at = begin; at < line.size(); at += 2) {
      EXPECT_EQ(line.substr(at, 2), std::string(2, line[at])) << line;
      out += line[at] == '#' ? '1' : '0';
    }
  }
  return out;
}

void expect_said(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << "'" << words << "' is not in\n" << text;
}

int times(const std::string& text, const std::string& what) {
  int n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST_F(Layout, IsDrawnBlockByBlock) {
  const auto fixed = text("layout = \"fixed\"\n");
  EXPECT_EQ(rows(fixed), "10000000 11000000 11100000 11110000 00011000 00011100 00011110 00011111");
  expect_said(fixed, "512 tokens: 8 x 8 blocks of 64\n");
  expect_said(fixed, "fixed, layers 0-3\n  24 blocks, 66.7 % of the diagonal and what is below it; rows of 1 to 5\n");
  expect_said(fixed, "no block lies above the diagonal\n  causal, key by key:");
  EXPECT_EQ(rows(text("layout = \"fixed\"\nglobal = 2\n")),
            "10000000 11000000 11100000 11110000 00111000 00111100 00111110 00111111");
  EXPECT_EQ(rows(text("layout = \"longformer\"\n")),
            "10000000 11000000 11100000 10110000 10011000 10001100 10000110 10000011");
  expect_said(text("layout = \"longformer\"\n"), "  21 blocks, 58.3 %");
  EXPECT_EQ(rows(text("layout = \"sliding\"\n")),
            "10000000 11000000 11100000 01110000 00111000 00011100 00001110 00000111");
  options.sequence = 384;
  EXPECT_EQ(rows(text("layout = \"fixed\"\n")), "100000 110000 111000 111100 000110 000111");
}

TEST_F(Layout, OfEachKindOfLayer) {
  const auto all = text("layout = \"dense, sliding x2, longformer\"\n", "layers = 10\ncontext = 512\n");
  expect_said(all, "\ndense, layers 0, 4, 8\n  every block is computed\n");
  expect_said(all, "\nsliding, layers 1-2, 5-6, 9\n");
  expect_said(all, "\nlongformer, layers 3, 7\n");
  EXPECT_EQ(times(all, "\n  0 ##"), 2);
  options.layer = 3;
  const auto one = text("layout = \"dense, sliding x2, longformer\"\n", "layers = 10\ncontext = 512\n");
  expect_said(one, "\nlongformer, layer 3\n");
  EXPECT_EQ(times(one, "layer"), 1);
  options.layer = 4;
  EXPECT_EQ(rows(text("layout = \"dense, sliding x2, longformer\"\n", "layers = 10\ncontext = 512\n")), "");
  options.layer = -1;
  expect_said(text("layout = \"dense\"\n"), "no layer has blocks");
}

TEST_F(Layout, OfManyBlocksIsScaledDown) {
  // 64 blocks a side in cells of 2 x 2. The window of one block fills half of a diagonal cell. The first column of
  // blocks fills half of the first cells. The first cell has both blocks of that column and a diagonal one: three of
  // four.
  const auto scaled = text("layout = \"longformer\"\nwindow = 1\nblock = 16\n", "layers = 1\ncontext = 1024\n");
  expect_said(scaled, "\n   0 xx..");
  expect_said(scaled, "\n   2 ++++..");
  expect_said(scaled, "\n   4 ++..++..");
  expect_said(scaled, "\n  62 ++..");
  EXPECT_EQ(scaled.find("\n  63 "), std::string::npos);
  expect_said(scaled, "a sign is 2 x 2 blocks: . none, - + x a part, # all of them are computed");
  std::istringstream lines(inspect::layouts_text(inspect::read_layouts(path, {}), 40, tools::Glyphs::unicode));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  0 ") && !line.starts_with("  4 ")) continue;
    EXPECT_LE(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }), 40) << line;
  }
}

TEST_F(Layout, DrawsOfItsOwnAreSaid) {
  const auto drawn = text("layout = \"bigbird\"\n");
  expect_said(drawn, "each of these layers draws its own columns: this is layer 0, --layer N shows another");
  options.layer = 2;
  EXPECT_EQ(text("layout = \"bigbird\"\n").find("draws its own"), std::string::npos);
  EXPECT_NE(rows(text("layout = \"bigbird\"\n")), rows(drawn));
  options.layer = -1;
  EXPECT_EQ(text("layout = \"bigbird\"\nshared-draws = \"on\"\n").find("draws its own"), std::string::npos);
}

TEST_F(Layout, OfHeadsThatDifferIsOfOneOfThem) {
  const std::string patterns = "layout = \"fixed\"\npatterns = 4\nper-head = \"on\"\n";
  const auto first = text(patterns);
  expect_said(first, "\n  96 blocks in 4 heads, 66.7 % of");
  expect_said(first, "  head 0 of 4; --head H shows another\n");
  options.head = 3;
  const auto last = text(patterns);
  EXPECT_EQ(rows(last), "10000000 11000000 11100000 11110000 10001000 10001100 10001110 10001111");
  EXPECT_EQ(inspect::layouts_json(inspect::read_layouts(path, options))["layouts"][0]["rows"].size(), 1u);
  EXPECT_EQ(times(inspect::layouts_drawing(inspect::read_layouts(path, options)), "class=\"title\""), 1);
  options.head = -1;
  const auto drawing = inspect::layouts_drawing(inspect::read_layouts(path, options));
  EXPECT_EQ(times(drawing, "class=\"title\""), 4);
  expect_said(drawing, ">head 3, fixed, layers 0-3: 66.7 %<");
  expect_said(drawing, "<title>row 4, column 0</title>");
  expect_said(drawing, "<title>row 3, columns 0 to 3</title>");
}

TEST_F(Layout, AsJson) {
  const auto json = inspect::layouts_json(read("layout = \"dense, longformer\"\n"));
  EXPECT_EQ(json["sequence"], 512);
  EXPECT_EQ(json["causal"], true);
  ASSERT_EQ(json["layouts"].size(), 2u);
  EXPECT_EQ(json["layouts"][0].dump(), R"({"density":1,"layers":[0,2],"layout":"dense"})");
  const auto& l = json["layouts"][1];
  EXPECT_EQ(l["blocks"], 21);
  EXPECT_EQ(l["side"], 8);
  EXPECT_DOUBLE_EQ(l["density"].get<double>(), 21.0 / 36);
  EXPECT_EQ(l["shortest_row"], 1);
  EXPECT_EQ(l["longest_row"], 3);
  EXPECT_EQ(l["above_diagonal"], 0);
  EXPECT_EQ(l["rows"].dump(), R"([["0","0:2","0:3","0 2:4","0 3:5","0 4:6","0 5:7","0 6:8"]])");
}

// A layout that is not causal is counted against the square, and blocks above the diagonal are reported.
TEST_F(Layout, ThatIsNotCausalIsCalledSo) {
  const plan::BlockLayout l{64, 3, 1, {0, 2, 2, 5}, {0, 2, 0, 1, 2}};
  const auto c = inspect::counts_of({}, l);
  EXPECT_EQ(c.above_diagonal, 1);
  EXPECT_EQ(c.of, 9);
  EXPECT_EQ(c.empty_rows, 1);
  EXPECT_EQ(c.shortest, 0);
  EXPECT_EQ(c.longest, 3);
  inspect::Layouts file;
  file.of = "it.h5", file.sequence = 192;
  file.shown.push_back({"file", {}, false, l});
  const auto text = inspect::layouts_text(file, 80, tools::Glyphs::ascii);
  EXPECT_EQ(rows(text), "101 000 111");
  expect_said(text, "5 blocks, 55.6 % of the square; rows of 0 to 3\n  1 row without a block: it sees nothing\n");
  expect_said(text, "not causal: 1 of them lie above the diagonal, which a causal model leaves out\n");
}

// A model that sees later keys is counted against the square, even if no block lies above the diagonal.
TEST_F(Layout, OfAModelThatSeesBothWays) {
  const auto both = text("causal = \"off\"\nlayout = \"longformer, sliding\"\nwindow = 3\n");
  EXPECT_EQ(rows(both).substr(0, 71), "11111111 11100000 11110000 10111000 10011100 10001110 10000111 10000011");
  expect_said(both,
              "  34 blocks, 53.1 % of the square; rows of 3 to 8\n  not causal: 13 of them lie above the diagonal\n");
  EXPECT_EQ(both.find("key by key"), std::string::npos);
  expect_said(text("causal = \"off\"\nlayout = \"sliding\"\nwindow = 1\n"),
              "  8 blocks, 12.5 % of the square; rows of 1\n  no block lies above the diagonal; queries in blocks on "
              "it see later keys, too\n");
}

TEST_F(Layout, OfAPlanHasThePlansSequence) {
  read("layout = \"sliding\"\n");
  plan::Plan p;
  p.model = plan::load_model(path);
  p.model.vocabulary = 256, p.model.lanes = 1, p.sequence = 192;
  p.topology = plan::topology_of(p, 1);
  plan::predict(p);
  spit(scratch.path + "/plan.json", plan::to_json(p));
  EXPECT_EQ(inspect::read_layouts(scratch.path + "/plan.json", {}).shown.at(0).blocks.n, 3);
}

TEST_F(Layout, ThatThereIsNotIsRefused) {
  const std::string sliding = "layout = \"sliding\"\n";
  options.layer = 4;
  EXPECT_EQ(refusal(sliding), "--layer 4: there are 4 layers");
  options = {}, options.head = 4;
  EXPECT_EQ(refusal(sliding), "--head 4: there are 4 heads");
  options = {}, options.sequence = 513;
  EXPECT_EQ(refusal(sliding), "--sequence 513 is longer than the model's context 512");
  options = {};
  expect_said(refusal("layout = \"file\"\nfile = \"nowhere.h5\"\n"), "nowhere.h5");
  expect_said(refusal("layout = \"fixed\"\nglobal = 9\n"), "describes no model that can be built");
  try {
    inspect::read_layouts(scratch.path + "/nowhere", {});
    FAIL();
  } catch (const base::InputError& e) {
    expect_said(e.what(), "does not exist");
  }
}

}  // namespace layout_test
