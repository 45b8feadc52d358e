// A traced run: its file has every action of the lists, every call of the ledgers, saves and loads, of every rank. Also
// what makes a reader refuse a file, and which places for a trace are refused.
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/trace_file.h"
#include "libtrain/plan/schedule/schedule.h"
#include "tests/engine/small_run.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace trainyard {
namespace trace_test {

using engine::RunConfig;
using testing::ParallelLayout;
using testing::SmallRun;
using Json = nlohmann::json;

struct Traced {
  Json file;
  std::vector<std::map<std::string, std::map<std::string, comm::Traffic>>> ledgers;  // by rank and group
  base::ExitCode code = base::ExitCode::done;

  // The spans of one kind on a rank's thread, by their beginnings, outer spans first.
  std::vector<Json> spans(int rank, const std::string& thread, const std::string& kind) const {
    int tid = -1;
    for (const auto& e : file["traceEvents"])
      if (e["ph"] == "M" && e["name"] == "thread_name" && e["pid"] == rank && e["args"]["name"] == thread)
        tid = e["tid"];
    std::vector<Json> out;
    for (const auto& e : file["traceEvents"])
      if (e["ph"] == "X" && e["pid"] == rank && (thread.empty() || e["tid"] == tid) &&
          (kind.empty() || e["cat"] == kind))
        out.push_back(e);
    std::stable_sort(out.begin(), out.end(), [](const Json& a, const Json& b) {
      return std::pair(a["ts"].get<double>(), -a["dur"].get<double>()) <
             std::pair(b["ts"].get<double>(), -b["dur"].get<double>());
    });
    return out;
  }
};

Traced run_traced(SmallRun& runs, RunConfig c, const ParallelLayout& layout) {
  SmallRun::apply(layout, c);
  Traced out;
  out.ledgers.resize(static_cast<std::size_t>(layout.ranks));
  const engine::SignalWatcher signals;
  comm::run_ranks(layout.ranks, [&](int rank, comm::ThreadsWorld& world) {
    auto w = engine::make_world("threads", rank, plan::replicas_of(layout.ranks, layout.tensor), world.factory(rank));
    const auto result = engine::run(c, w, signals, {}, layout.ranks);
    if (rank == 0) out.code = result.code;
    for (auto* group : w.groups())
      out.ledgers[static_cast<std::size_t>(rank)][group->group()] = group->ledger().totals();
  });
  out.file = Json::parse(testing::slurp(c.trace));
  return out;
}

RunConfig small(const SmallRun& runs, const std::string& name) {
  auto c = runs.config(name);
  c.steps = 4;
  c.global_batch = 7;  // the last accumulation step is uneven on two ranks
  c.save_every = 2;
  c.validate_every = 4;
  c.validation_sequences = 4;
  c.trace = (runs.folder() / (name + ".json")).string();
  return c;
}

plan::Plan plan_of(const ParallelLayout& layout, const RunConfig& c) {
  plan::Plan p;
  p.topology = plan::replicas_of(layout.ranks, layout.tensor);
  p.model.layers = 3;
  if (layout.breadth_first) p.accumulation_order = plan::AccumulationOrder::breadth;
  p.global_batch = c.global_batch, p.micro_batch = c.micro_batch, p.local_accumulation = c.local_accumulation;
  return p;
}

void expect_lists(const Traced& t, const ParallelLayout& layout, const RunConfig& c, std::int64_t first,
                  std::int64_t last) {
  for (int rank = 0; rank < layout.ranks; ++rank) {
    const auto found = t.spans(rank, "compute", "action");
    const auto list = plan::actions(plan_of(layout, c), rank);
    ASSERT_EQ(found.size(), list.size() * static_cast<std::size_t>(last - first + 1)) << "rank " << rank;
    double over = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto& action = list[i % list.size()];
      const auto& args = found[i]["args"];
      EXPECT_EQ(found[i]["name"], plan::name_of(action.kind)) << "rank " << rank << " action " << i;
      EXPECT_EQ(args["step"], first + static_cast<std::int64_t>(i / list.size()));
      if (action.kind == plan::Action::Kind::update) continue;
      EXPECT_EQ(args["round"], action.round);
      EXPECT_EQ(args["micro"], action.micro);
      EXPECT_EQ(args["slot"], action.slot);
      EXPECT_EQ(args["chunk"], action.chunk);
      EXPECT_EQ(args.value("block", std::int64_t{-1}), action.block);
      EXPECT_GE(found[i]["ts"].get<double>(), over - 0.01) << "actions follow one another";
      over = found[i]["ts"].get<double>() + found[i]["dur"].get<double>();
    }
  }
}

// The calls equal those of the ledgers, and every call of a group occurs once.
void expect_calls(const Traced& t, const ParallelLayout& layout) {
  for (int rank = 0; rank < layout.ranks; ++rank) {
    std::map<std::string, std::map<std::string, comm::Traffic>> found;
    std::map<std::string, std::vector<std::int64_t>> sequences;
    for (const auto& e : t.spans(rank, "", "collective")) {
      const std::string group = e["args"]["group"];
      auto& traffic = found[group][e["name"]];
      ++traffic.calls, traffic.sent_bytes += e["args"]["bytes"].get<std::uint64_t>();
      sequences[group].push_back(e["args"]["sequence"]);
    }
    for (const auto& [group, operations] : t.ledgers[static_cast<std::size_t>(rank)])
      for (const auto& [operation, traffic] : operations) {
        EXPECT_EQ(found[group][operation].calls, traffic.calls) << rank << " " << group << " " << operation;
        EXPECT_EQ(found[group][operation].sent_bytes, traffic.sent_bytes) << rank << " " << group << " " << operation;
      }
    for (const auto& [group, numbers] : sequences)
      for (std::size_t i = 1; i < numbers.size(); ++i)
        ASSERT_EQ(numbers[i], numbers[i - 1] + 1) << rank << " " << group << " " << i;
    EXPECT_GT(found["control"]["all_gather"].calls, 0u) << "rank " << rank;
  }
}

void expect_nested(const Traced& t, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    for (const auto* thread : {"compute", "communication", "loader", "checkpoint"}) {
      std::vector<double> open;  // ends of the enclosing spans
      for (const auto& e : t.spans(rank, thread, "")) {
        const double begin = e["ts"], end = begin + e["dur"].get<double>();
        EXPECT_GE(begin, 0);
        while (!open.empty() && open.back() <= begin + 0.002) open.pop_back();
        EXPECT_TRUE(open.empty() || end <= open.back() + 0.002) << rank << " " << thread << ": " << e;
        open.push_back(end);
      }
    }
}

TEST(Trace, HoldsEveryActionEveryCallAndEverySaveOfEachRank) {
  SmallRun runs;
  int n = 0;
  for (const auto& layout :
       {ParallelLayout{2, 0}, ParallelLayout{2, 2}, ParallelLayout{3, 3}, ParallelLayout{2, 1, 1, "f32", "none", 2},
        ParallelLayout{1, 0}, ParallelLayout{.ranks = 2, .zero = 3, .breadth_first = true}}) {
    SCOPED_TRACE(fmt::format("{} ranks, ZeRO {}, {} tensor", layout.ranks, layout.zero, layout.tensor));
    auto c = small(runs, fmt::format("all-{}", n++));
    const auto t = run_traced(runs, c, layout);
    expect_lists(t, layout, c, 1, 4);
    expect_calls(t, layout);
    expect_nested(t, layout.ranks);
    for (int rank = 0; rank < layout.ranks; ++rank) {
      std::map<std::string, std::vector<std::int64_t>> saves;
      for (const auto& e : t.spans(rank, "", "save")) saves[e["name"]].push_back(e["args"]["step"]);
      EXPECT_EQ(saves["snapshot"], (std::vector<std::int64_t>{2, 4}));
      EXPECT_EQ(saves["write"], (std::vector<std::int64_t>{2, 4}));
      EXPECT_EQ(saves["publish"].size(), rank == 0 ? 2u : 0u);
      EXPECT_GT(t.spans(rank, "loader", "load").size(), 0u);
      EXPECT_EQ(t.spans(rank, "compute", "validation").size(), 1u);
      EXPECT_EQ(!t.spans(rank, "compute", "wait").empty(), layout.ranks > 1);
    }
  }
}

TEST(Trace, SaysWhatRanAndHowFarTheClocksAreApart) {
  SmallRun runs;
  const auto c = small(runs, "says");
  const auto t = run_traced(runs, c, {2, 0, 1, "f32", "none", 2});
  const auto& other = t.file["otherData"];
  EXPECT_EQ(other["format"], "trainyard.trace/1");
  EXPECT_EQ(other["schedule"], "one-stage");
  EXPECT_EQ(other["ranks"], 2);
  EXPECT_EQ(other["stages"], 1);
  EXPECT_EQ(other["chunks"], 1);
  EXPECT_EQ(other["tensor"], 2);
  EXPECT_EQ(other["micro_batches"], 7);
  EXPECT_EQ(other["first_step"], 1);
  EXPECT_EQ(other["last_step"], 4);
  ASSERT_EQ(other["of_ranks"].size(), 2u);
  for (const auto& rank : other["of_ranks"]) {
    EXPECT_EQ(rank["left_out"], 0);
    ASSERT_EQ(rank["clock"].size(), 2u) << "before and after";
    for (const auto& clock : rank["clock"]) {  // one machine, one clock: an offset is at most its uncertainty
      const auto offset = std::abs(clock["offset_seconds"].get<double>()),
                 unsure = clock["uncertainty_seconds"].get<double>() + 1e-9;
      EXPECT_LE(offset, unsure);
    }
  }
  std::vector<std::string> names;
  for (const auto& e : t.file["traceEvents"])
    if (e["name"] == "process_name") names.push_back(e["args"]["name"]);
  EXPECT_EQ(names,
            (std::vector<std::string>{"rank 0 (stage 0, data 0, tensor 0)", "rank 1 (stage 0, data 0, tensor 1)"}));
}

TEST(Trace, OfSomeStepsHoldsThoseAlone) {
  SmallRun runs;
  auto c = small(runs, "some");
  c.trace_steps = "2:3";
  const auto t = run_traced(runs, c, {2, 0});
  expect_lists(t, {2, 0}, c, 2, 3);
  c = small(runs, "none");
  c.trace_steps = "9";
  EXPECT_THROW(runs.run(c, {2, 0}), comm::AgreedError);
  EXPECT_FALSE(std::filesystem::exists(c.output));
}

TEST(Trace, OfAStopAndOfTheResumeHoldWhatEachDid) {
  SmallRun runs;
  auto c = small(runs, "parts");
  c.stop_after = 3;
  const auto first = run_traced(runs, c, {2, 0});
  EXPECT_EQ(first.code, base::ExitCode::requeue);
  expect_lists(first, {2, 0}, c, 1, 3);
  c.stop_after = 0;
  c.trace_steps = "4:4";  // the traced steps may change, and the file that an earlier start left is replaced
  const auto second = run_traced(runs, c, {3, 1});
  EXPECT_EQ(second.code, base::ExitCode::done);
  expect_lists(second, {3, 1}, c, 4, 4);
}

TEST(Trace, ChangesNoBits) {
  SmallRun runs;
  auto traced = small(runs, "traced"), plain = small(runs, "plain");
  plain.trace.clear();
  const auto a = runs.run(traced, {2, 2}), b = runs.run(plain, {2, 2});
  EXPECT_EQ(runs.bits(traced, a), runs.bits(plain, b));
}

TEST(Trace, StepsAreARange) {
  const auto is = [](const char* text, std::int64_t first, std::int64_t last) {
    const auto s = engine::trace_steps(text);
    EXPECT_EQ(s.first, first);
    EXPECT_EQ(s.last, last);
  };
  is("3:6", 3, 6);
  is("7", 7, 7);
  is("2:2", 2, 2);
  EXPECT_TRUE(engine::trace_steps("").has(123456789));
  EXPECT_FALSE(engine::trace_steps("3:6").has(7));
  EXPECT_FALSE(engine::trace_steps("3:6").has(2));
  for (const auto* wrong : {"0", "-1", "6:3", "a", "3:", ":3", "3:6:9", "3-6", " 3", "99999999999999999999"})
    EXPECT_THROW(engine::trace_steps(wrong), base::UsageError) << wrong;
}

base::ExitCode refusal(const RunConfig& c) {
  try {
    engine::require_trace_place(c);
  } catch (const base::Error& e) {
    EXPECT_FALSE(std::string(e.what()).empty());
    return e.code();
  }
  return base::ExitCode::done;
}

TEST(Trace, PlacesAreRefusedBeforeAnythingIsMade) {
  const testing::Scratch scratch;
  RunConfig c;
  c.output = scratch.path + "/run";
  const auto of = [&](const std::string& path) {
    c.trace = path;
    return refusal(c);
  };
  EXPECT_EQ(of(""), base::ExitCode::done);
  EXPECT_EQ(of(scratch.path + "/t.json"), base::ExitCode::done);
  EXPECT_EQ(of(scratch.path + "/run/t.json"), base::ExitCode::done) << "the run makes its folder";
  EXPECT_EQ(of(scratch.path + "/missing/t.json"), base::ExitCode::environment);
  EXPECT_EQ(of(scratch.path + "/missing/"), base::ExitCode::usage);
  EXPECT_EQ(of(scratch.path), base::ExitCode::usage) << "a folder";
  EXPECT_EQ(of(scratch.path + "/t.partial"), base::ExitCode::usage);
  testing::spit(scratch.path + "/notes", "somebody's");
  EXPECT_EQ(of(scratch.path + "/notes"), base::ExitCode::usage);
  EXPECT_EQ(of(scratch.path + "/notes/t.json"), base::ExitCode::environment);
  testing::spit(scratch.path + "/old.json", engine::trace_head(nlohmann::ordered_json::object()) + engine::trace_tail);
  EXPECT_EQ(of(scratch.path + "/old.json"), base::ExitCode::done) << "traces are replaced";
  std::filesystem::create_symlink("old.json", scratch.path + "/link.json");
  EXPECT_EQ(of(scratch.path + "/link.json"), base::ExitCode::usage);
  std::filesystem::create_directories(scratch.path + "/run/checkpoints");
  testing::spit(scratch.path + "/run/metrics.jsonl", "");
  EXPECT_EQ(of(scratch.path + "/run/checkpoints/t.json"), base::ExitCode::usage);

  for (const auto* own : {"", "/", "/.", "/checkpoints", "/metrics.jsonl", "/lock", "/last-checkpoint", "/report.txt",
                          "/exit", "/exit/t.json", "/tokenizer-1.json"}) {
    c.output = scratch.path + "/other";
    EXPECT_EQ(of(c.output + own), base::ExitCode::usage) << own;
  }
  c.output = scratch.path + "/above/run";
  EXPECT_EQ(of(scratch.path + "/above"), base::ExitCode::usage);
  c.data = scratch.path + "/shards";
  std::filesystem::create_directories(c.data);
  EXPECT_EQ(of(c.data + "/t.json"), base::ExitCode::usage);

  SmallRun runs;
  auto run = small(runs, "refused");
  run.trace = scratch.path + "/missing/t.json";
  EXPECT_THROW(runs.run(run, {2, 0}), base::Error);
  EXPECT_FALSE(std::filesystem::exists(run.output));
}

TEST(Trace, OfNoStepIsRefused) {
  const auto refused = [](const std::string& range, std::int64_t completed, std::int64_t stop_after = 0) {
    RunConfig c;
    c.trace = "t.json", c.trace_steps = range, c.steps = 10, c.stop_after = stop_after;
    try {
      engine::require_steps_to_trace(c, completed);
      return false;
    } catch (const base::UsageError&) {
      return true;
    }
  };
  EXPECT_TRUE(refused("11:20", 0));
  EXPECT_FALSE(refused("10:20", 0));
  EXPECT_TRUE(refused("1:4", 4));
  EXPECT_FALSE(refused("1:5", 4));
  EXPECT_TRUE(refused("6", 0, 5));
  EXPECT_FALSE(refused("5", 0, 5));
  EXPECT_FALSE(refused("", 4));
  EXPECT_FALSE(refused("1:4", 10)) << "nothing is left to do, which the run says";
}

// The run is complete and its trace file is missing; all ranks know.
TEST(Trace, ThatCannotBeWrittenCostsTheRunNothingElse) {
  SmallRun runs;
  auto c = small(runs, "vanished");
  const auto folder = runs.folder() / "away";
  std::filesystem::create_directories(folder);
  c.trace = (folder / "t.json").string();
  const engine::RunListener listener{[&](const engine::StepMetrics& m, std::int64_t) {
                                       if (m.step == 3) std::filesystem::remove_all(folder);
                                     },
                                     {}};
  const auto result = runs.run(c, {3, 0}, listener);
  ASSERT_NE(result.trace_error, nullptr);
  EXPECT_EQ(result.trace_error->code(), base::ExitCode::environment) << result.trace_error->what();
  EXPECT_EQ(result.code, base::ExitCode::done);
  EXPECT_TRUE(result.checkpoint.ends_with("/checkpoints/step-00000004")) << result.checkpoint;
  EXPECT_TRUE(std::filesystem::exists(result.checkpoint));
  EXPECT_TRUE(testing::slurp(c.output + "/report.txt").starts_with("memory"));
  EXPECT_FALSE(std::filesystem::exists(c.output + "/exit"));
}

TEST(Trace, RanksAreKeptApartByTheirClocks) {
  const engine::RankClock clock{{100, 50, 0}, {200, 60, 0}};  // its clock gains a tenth
  EXPECT_DOUBLE_EQ(clock.on_rank_zero(100), 50);
  EXPECT_DOUBLE_EQ(clock.on_rank_zero(200), 140);
  EXPECT_DOUBLE_EQ(clock.on_rank_zero(150), 95);
  EXPECT_DOUBLE_EQ((engine::RankClock{{5, 2, 0}, {5, 2, 0}}.on_rank_zero(9)), 7);
}

}  // namespace trace_test
}  // namespace trainyard
