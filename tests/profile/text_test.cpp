// Tests tables, CSV, charts and drawings of a known profile.
#include "tools/common/profile_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace trainyard {
namespace {

plan::Profile sample() {
  plan::Profile p;
  p.ranks = 4, p.nodes = {"n1", "n2"}, p.backend = "mpi", p.library = "Open MPI <v4>", p.device = "cpu",
  p.measured_at = "2026-11-21T12:00:00Z";
  for (const auto* operation : {"all_reduce", "broadcast", "exchange"}) {
    plan::CommSeries s;
    s.group = "data", s.operation = operation, s.type = "f32", s.ranks = 4;
    for (std::int64_t bytes = 1024; bytes <= 16384; bytes *= 4) {
      plan::CommPoint q;
      q.bytes = bytes, q.count = bytes / 4, q.seconds = 2e-6 + static_cast<double>(bytes) / 1e9,
      q.interval = {0.9 * q.seconds, 1.1 * q.seconds};
      q.p95 = 1.2 * q.seconds, q.p99 = 1.3 * q.seconds, q.calls = 30, q.slowest_rank = 2, q.slowest_share = 0.5;
      for (int r = -10; r <= 10; ++r) q.repeats.push_back(q.seconds * (1 + 0.01 * r));
      s.points.push_back(q);
    }
    s.fit = plan::fit_link(s.samples());
    p.communication.push_back(s);
  }
  p.local.push_back({"gemm.a", "4x4, f32", "FLOP/s", 2, 2.5e9, {2e9, 3e9}, {2e9, 2.5e9, 3e9}});
  return p;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(ProfileText, TheTableHasTheFieldsColumns) {
  const auto text = tools::profile_table(sample(), base::Sizes::exact);
  std::vector<std::string> fields;
  for (const auto& line : lines_of(text)) {
    std::istringstream in(line);
    std::string first;
    in >> first;
    if (first != "1024") continue;
    fields = {first};
    for (std::string f; in >> f;) fields.push_back(f);
    break;
  }
  // 1024 B in 3.024 us: 0.339 GB/s, times 2 (n - 1) / n = 1.5.
  EXPECT_EQ(fields, (std::vector<std::string>{"1024", "256", "f32", "3.02", "10.0", "3.63", "3.93", "0.339", "0.508",
                                              "2", "50%", "0"}));
  EXPECT_NE(text.find("# fit: from 0 B 2 us + bytes / 1.00 GB/s\n"), std::string::npos) << text;
  EXPECT_NE(text.find("2.50 GFLOP/s"), std::string::npos);
  const auto rounded = tools::profile_table(sample(), base::Sizes::rounded);
  EXPECT_NE(rounded.find("\n       1 KiB         256   f32        3.02"), std::string::npos)
      << rounded;  // as wide as the exact form
  EXPECT_NE(rounded.find("# fit: from 0 B 2 us + bytes / 1.00 GB/s\n"), std::string::npos) << rounded;
}

TEST(ProfileText, AnIntervalWiderThanItsMedianIsExplained) {
  auto p = sample();
  EXPECT_EQ(tools::profile_table(p, base::Sizes::exact).find("above 100 %"), std::string::npos);
  auto& points = p.communication[1].points;
  points[0].interval.high = 5 * points[0].seconds;
  EXPECT_NE(tools::profile_table(p, base::Sizes::exact).find("# one +- is above 100 %: its repeats differ"),
            std::string::npos);
  points[1].interval.high = 5 * points[1].seconds;
  EXPECT_NE(tools::profile_table(p, base::Sizes::exact).find("# 2 of +- are above 100 %: their repeats differ"),
            std::string::npos);
}

TEST(ProfileText, NamesOfAFileKeepToTheirLine) {
  auto p = sample();
  p.backend = "m\x1b[31m", p.communication[0].group = "a\nb", p.local[0].name = "x\ty";
  const auto text = tools::profile_table(p, base::Sizes::exact);
  EXPECT_NE(text.find("m\\x1b[31m"), std::string::npos);
  EXPECT_NE(text.find("on a\\nb:"), std::string::npos);
  EXPECT_NE(text.find("x\\ty"), std::string::npos);
}

TEST(ProfileText, CsvIsATable) {
  const auto lines = lines_of(tools::profile_csv(sample()));
  ASSERT_EQ(lines.size(), 1u + 9 + 1 + 1);
  const auto commas = [](const std::string& l) { return std::count(l.begin(), l.end(), ','); };
  for (int i = 1; i < 10; ++i) EXPECT_EQ(commas(lines[static_cast<std::size_t>(i)]), commas(lines[0]));
  EXPECT_EQ(lines[1].substr(0, 44), "data,4,1,all_reduce,f32,1024,256,3.024,2.721");
  EXPECT_EQ(lines[11], "gemm.a,\"4x4, f32\",2,FLOP/s,2.5e+09,2e+09,3e+09");
}

TEST(ProfileText, ChartsShowEveryPoint) {
  const auto p = sample();
  const auto ascii = tools::profile_charts(p, 80, tools::Glyphs::ascii),
             unicode = tools::profile_charts(p, 80, tools::Glyphs::unicode);
  std::ptrdiff_t points = 0;
  for (const auto& line : lines_of(ascii))
    if (line.find('|') != std::string::npos) points += std::count(line.begin(), line.end(), 'o');
  EXPECT_EQ(points, 9) << ascii;
  EXPECT_TRUE(std::all_of(ascii.begin(), ascii.end(), [](char c) { return static_cast<unsigned char>(c) < 128; }));
  EXPECT_NE(unicode.find("\u25cf"), std::string::npos);
  for (const auto& line : lines_of(ascii)) EXPECT_LE(line.size(), 80u) << line;
  const auto named = lines_of(ascii);
  EXPECT_EQ(std::count_if(named.begin(), named.end(),
                          [](const auto& l) {
                            return l.find("1 KiB ") == 11 && l.find(" message size ") != std::string::npos &&
                                   l.ends_with(" 16 KiB");
                          }),
            3)
      << ascii;
  EXPECT_EQ(tools::profile_charts({}, 80, tools::Glyphs::ascii), "");
}

TEST(ProfileText, TheDrawingIsWellFormed) {
  const auto svg = tools::profile_svg(sample());
  const auto count = [&](const std::string& what) {
    int n = 0;
    for (auto at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(svg.substr(0, 4), "<svg");
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count("<circle"), 9);
  EXPECT_EQ(count("class=\"band\""), 3);
  EXPECT_EQ(count("<polyline class=\"line\""), 3);
  EXPECT_EQ(count("nan"), 0);
  EXPECT_EQ(count("inf"), 0);
  EXPECT_EQ(count("<v4>"), 0);  // text is escaped
  EXPECT_EQ(count("&lt;v4&gt;"), 1);
  EXPECT_EQ(count("<text"), count("</text>"));
  EXPECT_EQ(count(">message size<"), 3);  // both axes of every panel have a title
  EXPECT_EQ(count(">busbw, GB/s<"), 3);
  EXPECT_EQ(count(">1 KiB<"), 3);
  EXPECT_EQ(count(">16 KiB<"), 3);
}

// A single size, and rates between 2 and 5: the axes still have ticks.
TEST(ProfileText, ANarrowDrawingHasTicks) {
  auto p = sample();
  p.communication.resize(1);
  p.communication[0].points.resize(1);
  auto& q = p.communication[0].points[0];
  q.seconds = 1024 / 1.5e9, q.interval = {q.seconds, q.seconds};
  for (auto& t : q.repeats) t = q.seconds;
  p.communication[0].fit = plan::fit_link(p.communication[0].samples());
  const auto svg = tools::profile_svg(p);
  std::ptrdiff_t ticks = 0;
  for (auto at = svg.find("class=\"tick\" text-anchor=\"end\""); at != std::string::npos;
       at = svg.find("class=\"tick\" text-anchor=\"end\"", at + 1))
    ++ticks;
  EXPECT_GE(ticks, 2) << svg;
  EXPECT_NE(svg.find(">1 KiB<"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(ProfileText, ComparisonSaysWhatIsSlower) {
  auto slower = sample();
  for (auto& q : slower.communication[0].points) {
    q.seconds *= 1.5;
    for (auto& r : q.repeats) r *= 1.5;
  }
  const auto c = plan::compare(sample(), slower);
  const auto text = tools::comparison_text(c, 0.05);
  EXPECT_NE(text.find("slower   data all_reduce f32 1024 B"), std::string::npos) << text;
  EXPECT_NE(text.find("+50.0 %"), std::string::npos);
  EXPECT_NE(text.find("3 of 10 figures are slower by more than 5 %"), std::string::npos) << text;
  EXPECT_NE(text.find("coverage"), std::string::npos);
}

}  // namespace
}  // namespace trainyard
