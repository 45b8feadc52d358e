// Drawings are well-formed whatever their data, and their ticks, legends and curves are where they should be.
#include "tools/inspect/drawing.h"

#include "tests/inspect/lines.h"
#include "tests/scratch.h"
#include "tools/common/axis_text.h"
#include "tools/common/svg_axis.h"
#include "tools/common/svg_chart.h"

#include "libtrain/base/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <regex>
#include <set>
#include <sstream>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace {

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// A tag without the values of its attributes, so that a pattern for it stays short: std::regex recurses for each
// character. A wrong value is reported in `wrong`.
std::string without_values(const std::string& tag, std::string& wrong) {
  static const std::set<std::string> places{"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "points"};
  std::string out;
  for (std::size_t at = 0; at < tag.size(); ++at) {
    out += tag[at];
    if (tag[at] != '"') continue;
    const auto end = tag.find('"', at + 1);
    if (end == std::string::npos) return out;
    const auto value = tag.substr(at + 1, end - at - 1);
    const auto name = out.substr(out.rfind(' ') + 1, out.size() - out.rfind(' ') - 3);
    if (value.find_first_of("<&") != std::string::npos) wrong = "a value with < or &: " + value.substr(0, 80);
    if (places.contains(name) && value.find_first_of("abcdefghijklmnopqrstuvwxyz") != std::string::npos)
      wrong = "a place that is no number: " + value.substr(0, 80);
    out += '"';
    at = end;
  }
  return out;
}

// What is wrong with a text as XML, as far as these files use XML; "" if nothing is.
std::string wrong_with(const std::string& svg) {
  if (!base::is_utf8(svg)) return "is not UTF-8";
  for (const char c : svg)
    if (static_cast<unsigned char>(c) < 32 && c != '\n') return "holds a control character";
  static const std::regex tag(R"re(^<(/?)([a-z]+)((?: [a-zA-Z:0-9-]+="")*)(/?)>)re");
  static const std::regex entity("^&(amp|lt|gt|quot);");
  std::vector<std::string> open;
  std::string wrong;
  for (std::size_t at = 0; at < svg.size();) {
    if (svg[at] == '&') {
      if (!std::regex_search(svg.substr(at, 8), entity)) return "a bare & at " + svg.substr(at, 40);
    } else if (svg[at] == '<') {
      std::smatch match;
      const auto rest = svg.substr(at, svg.find('>', at) - at + 1), shape = without_values(rest, wrong);
      if (!wrong.empty()) return wrong;
      if (!std::regex_search(shape, match, tag)) return "no tag: " + rest.substr(0, 80);
      if (match[1] == "/") {
        if (open.empty() || open.back() != match[2]) return "closes what is not open: " + rest;
        open.pop_back();
      } else if (match[4] != "/") {
        open.push_back(match[2]);
      }
      at += rest.size();
      continue;
    }
    ++at;
  }
  if (!open.empty()) return "left open: " + open.back();
  return "";
}

inspect::History history(const std::string& text) {
  Scratch scratch;
  spit(scratch.path + "/m.jsonl", text);
  return inspect::read_history(scratch.path + "/m.jsonl");
}

}  // namespace

TEST(Checker, SeesWhatIsWrong) {
  EXPECT_EQ(wrong_with("<svg a=\"b\"><g/>x &amp; y</svg>"), "");
  for (const char* bad : {"<svg>", "</svg>", "<svg><g></svg></g>", "<svg a=b></svg>", "<svg>&x</svg>",
                          "<svg>\x01</svg>", "<svg x=\"nan\"/>", "<svg points=\"1,inf\"/>", "<svg>\xff</svg>"})
    EXPECT_NE(wrong_with(bad), "") << bad;
}

TEST(Drawing, OfARun) {
  const auto svg = inspect::run_drawing("my run", history(lines::text(1, 40, 40)), inspect::Across::step);
  EXPECT_EQ(wrong_with(svg), "");
  for (const char* part : {">loss of my run<", ">gradient norm<", ">learning rate<", ">throughput<", ">train<",
                           ">validation<", ">step<", ">nats<", ">tokens/s<", ">20<", "prefers-color-scheme:dark"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(count(svg, "<circle"), 10);  // validations
  EXPECT_NE(inspect::run_drawing("r", history(lines::text(1, 40)), inspect::Across::tokens).find(">tokens<"),
            std::string::npos);
}

TEST(Drawing, OfOddRuns) {
  const double most = std::numeric_limits<double>::max();
  for (const auto& text :
       {std::string("{\"step\":1}\n"), lines::text(1, 1), std::string("{\"step\":1,\"loss\":\"nan\"}\n"),
        std::string("{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":2}\n"),
        std::string("{\"step\":0,\"loss\":0}\n{\"step\":0,\"loss\":-1}\n"),
        fmt::format("{{\"step\":1,\"loss\":{}}}\n{{\"step\":9223372036854775807,\"loss\":{}}}\n", most, -most),
        std::string("{\"step\":1,\"loss\":1e289}\n{\"step\":2,\"loss\":-1e289}\n{\"step\":3,\"loss\":\"inf\"}\n"),
        std::string("{\"step\":1,\"loss\":1e-320}\n{\"step\":2,\"loss\":5e-310}\n"),
        std::string("{\"step\":1,\"loss\":1e-280}\n{\"step\":2,\"loss\":1e280}\n"),
        std::string("{\"step\":7,\"loss\":3.00000000000001}\n{\"step\":8,\"loss\":3.00000000000002}\n"),
        lines::text(5, 9) + lines::text(1, 4)})
    for (const auto across : {inspect::Across::step, inspect::Across::tokens, inspect::Across::time}) {
      const auto h = history(text);
      const auto svg =
          inspect::run_drawing("</svg>&\"<script>\x1b\xff\xEF\xBF\xBF" + std::string(5000, 'x'), h, across);
      EXPECT_EQ(wrong_with(svg), "") << text;
      EXPECT_EQ(svg.find("<script"), std::string::npos);
      EXPECT_EQ(svg.find("\xEF\xBF\xBF"), std::string::npos);
      const auto two = inspect::comparison_drawing({{"a&b", "a", h}, {"<c>", "b", history(lines::text(1, 9))}}, across);
      EXPECT_EQ(wrong_with(two), "") << text;
    }
}

TEST(Drawing, OfSeveralRuns) {
  auto other = lines::text(1, 20);
  other.replace(other.find("\"loss\":2.5"), 10, "\"loss\":2.6");
  const auto a = history(lines::text(1, 20)), b = history(other);
  const auto equal = inspect::comparison_drawing({{"one", "", a}, {"two", "", a}}, inspect::Across::step);
  EXPECT_EQ(wrong_with(equal), "");
  EXPECT_EQ(count(equal, "class=\"title\""), 1);
  EXPECT_EQ(count(equal, ">one<") + count(equal, ">two<"), 2);
  const auto differ = inspect::comparison_drawing({{"one", "", a}, {"two", "", b}}, inspect::Across::step);
  EXPECT_EQ(count(differ, "class=\"title\""), 2);
  EXPECT_NE(differ.find("loss minus the loss of one"), std::string::npos);
  other.replace(other.find("\"loss\":2.6"), 10, "\"loss\":2.500001");  // rounding: its size matters
  const auto near = inspect::comparison_drawing({{"one", "", a}, {"two", "", history(other)}}, inspect::Across::step);
  EXPECT_NE(near.find("size of the loss difference to one"), std::string::npos);
}

// A million points take as many places as there are pixels, in a band that contains all of them.
TEST(Drawing, OfManyPoints) {
  tools::SvgPanel p;
  tools::SvgCurve c;
  for (int i = 0; i < 1000000; ++i) c.points.push_back({static_cast<double>(i), i == 600000 ? 9.0 : (i % 2) * 1.0});
  p.curves.push_back(std::move(c));
  const auto svg = tools::svg_drawing({p}, "many", {});
  EXPECT_EQ(wrong_with(svg), "");
  EXPECT_LT(svg.size(), 60000u);
  EXPECT_EQ(count(svg, "class=\"band\""), 1);
  // The band's highest place is the one point above all others: 4 % below the top of the plot.
  const auto at = svg.find("<polygon");
  double top = 1e9;
  std::string points = svg.substr(svg.find("points=\"", at) + 8);
  std::istringstream in(points.substr(0, points.find('"')));
  for (std::string xy; in >> xy;) top = std::min(top, std::stod(xy.substr(xy.find(',') + 1)));
  EXPECT_NEAR(top, 34 + (420 - 34 - 44) * 0.04 / 1.08, 0.1);
}

TEST(Axis, TicksAreRound) {
  const auto texts = [](tools::SvgScale scale, double low, double high, double about) {
    tools::SvgRange r(scale);
    r.take(low), r.take(high);
    std::vector<std::string> out;
    for (const auto& t : r.ticks(about)) out.push_back(t.text);
    return out;
  };
  using tools::SvgScale;
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts(SvgScale::linear, 0, 10, 5), (Texts{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(texts(SvgScale::linear, -1, 1, 4), (Texts{"-1.0", "-0.5", "0", "0.5", "1.0"}));
  EXPECT_EQ(texts(SvgScale::linear, 0, 1e6, 5), (Texts{"0", "200k", "400k", "600k", "800k", "1M"}));
  EXPECT_EQ(texts(SvgScale::linear, 1000000, 1000010, 5),
            (Texts{"1,000,000", "1,000,002", "1,000,004", "1,000,006", "1,000,008", "1,000,010"}));
  EXPECT_EQ(texts(SvgScale::linear, 1e-5, 3e-5, 2), (Texts{"1e-05", "2e-05", "3e-05"}));
  EXPECT_EQ(texts(SvgScale::logarithmic, 0.5, 30, 6), (Texts{"0.5", "1", "2", "5", "10", "20"}));
  EXPECT_EQ(texts(SvgScale::logarithmic, 1e-9, 1e9, 6),
            (Texts{"1e-09", "1e-06", "1e-03", "1e+00", "1e+03", "1e+06", "1e+09"}));
  EXPECT_EQ(texts(SvgScale::logarithmic, 400, 250000, 6),
            (Texts{"500", "1k", "2k", "5k", "10k", "20k", "50k", "100k", "200k"}));
  EXPECT_EQ(texts(SvgScale::sizes, 1024, 1 << 20, 6),
            (Texts{"1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"}));
  EXPECT_EQ(texts(SvgScale::linear, 3, 3, 6), (Texts{"3.00"}));
}

// Labels on an axis have one style, whatever the numbers.
TEST(Axis, LabelsHaveOneStyle) {
  using Texts = std::vector<std::string>;
  using tools::axis_labels;
  EXPECT_EQ(axis_labels({500, 1000, 2000, 5000}, 0), (Texts{"500", "1,000", "2,000", "5,000"}));
  EXPECT_EQ(axis_labels({500, 1000, 20000, 100000, 1e6}, 0), (Texts{"500", "1k", "20k", "100k", "1M"}));
  EXPECT_EQ(axis_labels({0.5, 1, 999.6, 12345}, 0), (Texts{"0.5", "1", "1k", "12.3k"}));
  EXPECT_EQ(axis_labels({0.5, 1, 999.6}, 0), (Texts{"0.5", "1", "1,000"}));
  EXPECT_EQ(axis_labels({1e-5, 2e-5, 1e-4, 1e-3}, 0), (Texts{"1e-05", "2e-05", "1e-04", "1e-03"}));
  EXPECT_EQ(axis_labels({0, 5000, 10000, 15000}, 5000), (Texts{"0", "5k", "10k", "15k"}));
  EXPECT_EQ(axis_labels({9500, 10000, 10500}, 500), (Texts{"9,500", "10,000", "10,500"}));
  EXPECT_EQ(axis_labels({0, 5e-5, 1e-4, 1.5e-4}, 5e-5), (Texts{"0", "5e-05", "1.0e-04", "1.5e-04"}));
  EXPECT_EQ(axis_labels({-0.5, 0, 0.5}, 0.5), (Texts{"-0.5", "0", "0.5"}));
  EXPECT_EQ(axis_labels({}, 1), Texts{});
  EXPECT_EQ(axis_labels({0}, 0), Texts{"0"});
  // The same beside a chart of characters.
  const auto chart = inspect::draw({{{{1, 500}, {2, 100000}}}}, 60, 10, tools::Glyphs::ascii);
  for (const char* label : {"  100,000 |", "   50,250 |", "      500 |"})
    EXPECT_NE(chart.find(label), std::string::npos) << chart;
  const auto long_run = inspect::draw({{{{500, 5.4789}, {1e6, 2.1}}}}, 60, 10, tools::Glyphs::ascii);
  for (const char* label : {"    5.479 |", "    2.100 |", "step 500 ", " 1,000,000\n"})
    EXPECT_NE(long_run.find(label), std::string::npos) << long_run;
}

// No label is wider than its column, so that the axis is straight.
TEST(Axis, OfCharactersIsStraight) {
  for (const double high : {0.0, 3e-300, 1e-5, 3.00000000000002, 5.5, 1e5, 123456789.123, 1e200})
    for (const double low : {-1e200, -12345.6, 0.0, 1e-9, 3.00000000000001, 500.0}) {
      std::istringstream in(inspect::draw({{{{1, low}, {2.5, high}}}}, 60, 8, tools::Glyphs::ascii));
      std::string line;
      for (int row = 0; row < 7 && std::getline(in, line); ++row) EXPECT_EQ(line.find('|'), 10u) << line;
    }
}

// Rows of bars have a scale at the right of each row, or of fewer rows where rows are low, and a legend.
TEST(Drawing, RowsHaveAScaleAndColorsALegend) {
  const auto drawn = [](int rows, double height) {
    tools::SvgPanel p;
    p.y.row_scale = {{-0.43, "1.00"}, {0.01, "2.00"}, {0.45, "3.00"}};
    p.keys = {{"forward", 0}, {"back & forth", 1}};
    for (int r = 0; r < rows; ++r) {
      p.y.names.push_back(fmt::format("layer {}", r));
      p.bars.push_back({0, 1, static_cast<double>(r), 0.8, 0, "", ""});
    }
    return tools::svg_drawing({p}, "rows", {1, 860, height});
  };
  const auto high = drawn(2, 300);
  EXPECT_EQ(wrong_with(high), "");
  for (const char* text : {">1.00<", ">2.00<", ">3.00<"}) EXPECT_EQ(count(high, text), 2) << text;
  for (const char* text : {">forward<", ">back &amp; forth<"}) EXPECT_EQ(count(high, text), 1) << text;
  EXPECT_EQ(count(high, "class=\"band key\""), 2);
  const auto usual = drawn(10, 400);
  EXPECT_EQ(count(usual, ">1.00<"), 10);
  EXPECT_EQ(count(usual, ">2.00<"), 0);
  const auto low = drawn(128, 1600);
  EXPECT_EQ(count(low, ">1.00<"), 43);  // at every third row, since a row has 11 pixels
  EXPECT_EQ(count(low, ">3.00<"), 43);
}
