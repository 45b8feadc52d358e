// Timelines. A simulated step is written as a trace and read back, and its timeline is again the simulation. Also
// drawings of several pipeline stages and of one, and files that are no traces.
#include "tools/inspect/timeline.h"

#include "libtrain/base/error.h"
#include "tests/inspect/synthetic_trace.h"
#include "tests/scratch.h"
#include "tools/inspect/report.h"

#include <gtest/gtest.h>

#include <regex>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;
using trainyard::testing::Synthetic;
using trainyard::testing::trace_of;
using Schedule = plan::PipelineSchedule;

namespace timeline_test {

inspect::Trace read(const std::string& text) {
  const Scratch scratch;
  spit(scratch.path + "/t.json", text);
  return inspect::read_trace(scratch.path + "/t.json");
}

std::string drawn(const inspect::Trace& trace, int columns, std::int64_t step = 0) {
  return inspect::timeline_text(inspect::timeline_of(trace, step, "t.json"), trace, columns, tools::Glyphs::ascii);
}

std::string refusal(const std::string& text) {
  try {
    const auto trace = read(text);
    inspect::timeline_of(trace, 0, "t.json");
  } catch (const base::InputError& e) {
    return e.what();
  }
  return "";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Timeline, OfASimulatedStepIsThatOfItsSimulation) {
  for (const auto& s : {Synthetic{Schedule::naive, 3, 1, 4}, Synthetic{Schedule::gpipe, 4, 1, 8},
                        Synthetic{Schedule::one_f_one_b, 4, 1, 8}, Synthetic{Schedule::interleaved, 2, 2, 4},
                        Synthetic{Schedule::zero_bubble, 4, 1, 8}, Synthetic{Schedule::one_f_one_b, 1, 1, 3},
                        Synthetic{.schedule = Schedule::one_f_one_b, .stages = 1, .micros = 3, .blocks = 4},
                        Synthetic{.schedule = Schedule::gpipe, .stages = 3, .micros = 5, .blocks = 4}}) {
    SCOPED_TRACE(fmt::format("schedule {}, {} stages", static_cast<int>(s.schedule), s.stages));
    const auto expected = trainyard::testing::simulated(s, trainyard::testing::lists_of(s));
    const auto trace = read(trace_of(s));
    const auto t = inspect::timeline_of(trace, 0, "t.json");
    EXPECT_EQ(t.problem, "");
    EXPECT_NEAR(t.idle_fraction(), expected.idle_fraction(), 1e-5);
    EXPECT_NEAR(t.ideal_idle_fraction, expected.idle_fraction(), 1e-5);
    EXPECT_NEAR(t.ideal_seconds, expected.seconds, 1e-7);
    ASSERT_EQ(t.costs.size(), static_cast<std::size_t>(s.stages * s.chunks));
    for (const auto& c : t.costs) {
      EXPECT_NEAR(c.forward, s.forward, 1e-8);
      EXPECT_NEAR(c.input_gradients, s.input_gradients, 1e-8);
      EXPECT_NEAR(c.weight_gradients, s.weight_gradients, 1e-8);
    }
    ASSERT_EQ(t.measured.size(), static_cast<std::size_t>(s.stages));
  }
}

TEST(Timeline, IsDrawnAsInTheLiterature) {
  const auto text = drawn(read(trace_of({})), 57);
  EXPECT_NE(text.find("rank 0  |F0--F1--F2--............B0======B1======B2======\n"
                      "rank 1  |....F0--F1--F2--B0======B1======B2======........\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("step 1: 12 ms, measured\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nideal: 12 ms"), std::string::npos) << text;
  EXPECT_NE(text.find("measured 25.0 % of 12 ms, ideal 25.0 % of 12 ms\n"), std::string::npos) << text;
  const auto zb = drawn(read(trace_of({Schedule::zero_bubble, 2, 1, 2})), 9 + 7 * 4);
  EXPECT_NE(zb.find("rank 1  |....F0--B0==F1--B1==W0~~W1~~"), std::string::npos) << zb;
  const auto chunks = drawn(read(trace_of({Schedule::interleaved, 2, 2, 2})), 120);
  EXPECT_NE(chunks.find("f0"), std::string::npos) << chunks;
  EXPECT_NE(chunks.find("b1"), std::string::npos) << chunks;
}

// The legend has the letters that are drawn, and no others, within 80 columns.
TEST(Timeline, HasALegend) {
  const auto of = [](const Synthetic& s) {
    const auto text = drawn(read(trace_of(s)), 79);
    const auto begin = text.find("legend  "), end = text.find("\n\n", begin);
    EXPECT_NE(begin, std::string::npos) << text;
    return text.substr(begin, end - begin);
  };
  EXPECT_EQ(of({}), R"(legend  F0--  forward of micro-batch 0
        B0==  backward of micro-batch 0
        .     idle or waiting
        a column is 171 us; a shorter pass takes a whole one)");
  const auto zero_bubble = of({Schedule::zero_bubble, 2, 1, 2}), chunks = of({Schedule::interleaved, 2, 2, 2});
  const auto whole = drawn(inspect::read_trace(GOLDEN "/trace.json"), 79);
  for (const char* line :
       {"        u     update of the weights\n", "        o     other work, as loading and reducing\n",
        "        +     communicating, in the line below a rank\n"})
    EXPECT_NE(whole.find(line), std::string::npos) << whole;
  EXPECT_NE(zero_bubble.find("B0==  backward of micro-batch 0, without weight gradients\n"), std::string::npos);
  EXPECT_NE(zero_bubble.find("W0~~  weight gradients of micro-batch 0\n"), std::string::npos) << zero_bubble;
  EXPECT_NE(chunks.find("f b   the same of a later virtual stage\n"), std::string::npos) << chunks;
}

// Passes shorter than half a column, as in short steps among long waits.
TEST(Timeline, ShortPassesAreDrawn) {
  Synthetic s{Schedule::naive, 8, 1, 1};
  s.forward = s.input_gradients = s.weight_gradients = 1e-3;
  const auto text = drawn(read(trace_of(s)), 9 + 20);  // 24 ms in 20 columns; each of 8 rows has 1 and 2 of them
  for (int rank = 0; rank < 8; ++rank) {
    const std::regex row(fmt::format("rank {}  \\|[^\n]*F[^\n]*B", rank));
    EXPECT_TRUE(std::regex_search(text, row)) << "rank " << rank << "\n" << text;
  }
  s.micros = 4;
  const auto dense = drawn(read(trace_of(s)), 9 + 20);  // 96 ms: passes are below half a column and may share one
  for (int rank = 0; rank < 8; ++rank) {
    const std::regex row(fmt::format("rank {}  \\|[^\n]*[FB][^\n]*[FB][^\n]*[FB][^\n]*[FB]", rank));
    EXPECT_TRUE(std::regex_search(dense, row)) << "rank " << rank << "\n" << dense;
  }
}

// A wait inside a pass is idle time, and the ideal uses the rest of the pass.
TEST(Timeline, WaitsAreIdle) {
  Synthetic s{Schedule::one_f_one_b, 1, 1, 2};
  const auto plain = trace_of(s);
  const auto waits = with(plain, trace_of(s).substr(plain.size() - 4),
                          ",\n{\"name\":\"wait\",\"cat\":\"wait\",\"ph\":\"X\",\"ts\":250.0,\"dur\":500.0,\"pid\":0,"
                          "\"tid\":0,\"args\":{}},\n"
                          "{\"name\":\"all_gather\",\"cat\":\"collective\",\"ph\":\"X\",\"ts\":200.0,\"dur\":550.0,"
                          "\"pid\":0,\"tid\":1,\"args\":{\"group\":\"data\",\"bytes\":5,\"sequence\":1}}\n]}\n");
  const auto trace = read(waits);
  const auto t = inspect::timeline_of(trace, 0, "t.json");
  EXPECT_NEAR(t.measured[0].passes, 5.5e-3, 1e-8);
  EXPECT_NEAR(t.measured[0].waiting, 0.5e-3, 1e-8);
  EXPECT_NEAR(t.measured[0].communicating, 0.55e-3, 1e-8);
  EXPECT_NEAR(t.idle_fraction(), 0.5 / 6, 1e-6);
  EXPECT_NEAR(t.costs[0].forward, 0.75e-3, 1e-8);
  const auto text = drawn(trace, 9 + 48);
  EXPECT_NE(text.find("round   |0                       1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0  |F0....F0B0==============F1------B1==============\n"), std::string::npos) << text;
}

TEST(Timeline, OfOneStepOfSeveral) {
  const auto trace = read(trace_of({Schedule::gpipe, 2, 1, 3, 4}));
  EXPECT_EQ(trace.full_steps(), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(inspect::timeline_of(trace, 0, "t").step, 4);
  EXPECT_EQ(inspect::timeline_of(trace, 2, "t").step, 2);
  try {
    inspect::timeline_of(trace, 5, "t");
    FAIL() << "step 5";
  } catch (const base::UsageError& e) {
    EXPECT_EQ(e.hint(), "it holds steps 1 to 4");
  }
  // A step in which one rank has not finished is not complete.
  auto shortened = trace_of({Schedule::gpipe, 2, 1, 3, 4});
  const auto last = shortened.rfind("{\"name\":\"update\"");
  shortened = shortened.substr(0, last - 2) + "\n]}\n";
  EXPECT_EQ(inspect::timeline_of(read(shortened), 0, "t").step, 3);
}

TEST(Timeline, IsDrawnAsSvg) {
  const auto trace = read(trace_of({}));
  const auto svg = inspect::timeline_svg(inspect::timeline_of(trace, 0, "t"), trace, "a & b");
  for (const char* part : {">step 1, measured: 25.0 % idle<", ">ideal: 25.0 % idle<", ">rank 1<", ">ms<",
                           ">forward of micro-batch 2: 1 ms<", "a &amp; b", ">forward<", ">backward<",
                           "numbers: micro-batches; blank: idle or waiting"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(svg.find(">communicating<"), std::string::npos);  // no rank communicates
  const auto chunks = read(trace_of({Schedule::interleaved, 2, 2, 2}));
  const auto stages = inspect::timeline_svg(inspect::timeline_of(chunks, 0, "t"), chunks, "c");
  EXPECT_NE(stages.find(">forward, odd virtual stages<"), std::string::npos);
  const auto real = inspect::read_trace(GOLDEN "/trace.json");
  const auto ranks = inspect::timeline_svg(inspect::timeline_of(real, 0, "t"), real, "c");
  for (const char* key : {">other work<", ">communicating<"}) EXPECT_NE(ranks.find(key), std::string::npos) << key;
  const std::regex bar("<rect class=\"band sure\"");
  // Two stages of three forwards and backwards, measured and ideal. Actions that take no time are marks without width.
  std::size_t wide = 0;
  for (std::sregex_iterator at(svg.begin(), svg.end(), bar), end; at != end; ++at)
    wide += svg.substr(static_cast<std::size_t>(at->position()), 120).find("width=\"0.00\"") == std::string::npos;
  EXPECT_EQ(wide, 24u);
}

TEST(Timeline, ListsThatDoNotRunHaveNoIdeal) {
  // A backward with the name of a forward.
  const auto text = with(trace_of({}), "{\"name\":\"backward\"", "{\"name\":\"forward\"");
  const auto trace = read(text);
  const auto t = inspect::timeline_of(trace, 0, "t");
  EXPECT_NE(t.problem, "");
  EXPECT_NE(drawn(trace, 80).find("no ideal: the step's schedule cannot be simulated"), std::string::npos);
  EXPECT_NE(drawn(trace, 80).find("ideal not known"), std::string::npos);
}

TEST(Timeline, OfFilesThatAreNoTraces) {
  const auto good = trace_of({});
  EXPECT_EQ(refusal(good), "");
  const auto says = [&](const std::string& text, const std::string& words) {
    EXPECT_NE(refusal(text).find(words), std::string::npos) << words << ": " << refusal(text);
  };
  says("", "damaged or was cut short");
  says(good.substr(0, good.size() / 2), "damaged or was cut short");
  says(with(good, "trainyard.trace/1", "trainyard.trace/2"), "this build reads trainyard.trace/1");
  says(with(good, "trainyard.trace/1", "other"), "another program");
  says("{\"traceEvents\":[{\"name\":\"a\",\"ph\":\"B\",\"pid\":1,\"tid\":1,\"ts\":5,\"args\":{}}]}", "another program");
  says("[{\"name\":\"a\",\"ph\":\"X\"}]", "another program");
  says("{\"otherData\":5,\"traceEvents\":[]}", "another program");
  says(with(good, "\"pid\":1", "\"pid\":7"), "rank 7 of 2");
  says(with(good, "\"pid\":1", "\"pid\":-1"), "pid");
  says(with(good, "\"chunk\":0", "\"chunk\":3"), "chunk 3 of 1");
  says(with(good, "\"slot\":0", "\"slot\":1000000000"), "slot");
  says(with(good, "\"dur\":1000.000", "\"dur\":-1"), "no time");
  says(with(good, "\"dur\":1000.000", "\"dur\":1e300"), "no time");
  says(with(good, "\"dur\":1000.000", "\"dur\":\"1\""), "no time");
  says(with(good, "\"stages\":2", "\"stages\":1"), "2 ranks are not 1 stages");
  says(with(good, "\"ranks\":2", "\"ranks\":100000000000"), "ranks");
  says(with(good, "\"forward\"", "\"sideward\""), "does not know");
  says(with(good, "\"args\":{", "\"args\":[],\"x\":{"), "without args");
  says(with(good, "\"host\":\"n1\"", "\"host\":" + std::string(100, '[') + std::string(100, ']')), "nested");
  auto empty = good.substr(0, good.find("\"traceEvents\":[") + 15);
  says(empty + "]}", "no step from beginning to end");
  says(empty + "5]}", "no list of events");
}

// A file that train wrote on two ranks; it must stay readable for ever.
TEST(Timeline, OfAGoldenFile) {
  const auto trace = inspect::read_trace(GOLDEN "/trace.json");
  EXPECT_EQ(trace.ranks.size(), 2u);
  EXPECT_EQ(trace.spans,
            trace.about["of_ranks"][0]["spans"].get<int>() + trace.about["of_ranks"][1]["spans"].get<int>());
  EXPECT_EQ(drawn(trace, 100), slurp(GOLDEN "/trace.txt"));
  const auto report = inspect::report_on(GOLDEN "/trace.json", {});
  EXPECT_EQ(report.json["kind"], "trace");
}

}  // namespace timeline_test
