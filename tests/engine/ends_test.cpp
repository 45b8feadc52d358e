// How a run ends: on an error of one rank, on an error of all ranks, and where --stop-after is reached.
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/evaluate.h"
#include "libtrain/engine/watch.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace {

using namespace trainyard;
using trainyard::testing::SmallRun;

// Copies of the data, each with one token of another training shard flipped. Only the rank that reads that shard sees
// the wrong checksum.
std::vector<std::string> damaged_copies(const SmallRun& runs) {
  const auto from = runs.folder() / "data";
  std::vector<std::string> copies;
  for (const auto& entry : data::read_index(from.string()).train) {
    const auto to = runs.folder() / fmt::format("damaged-{}", copies.size());
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
    std::fstream file(to / entry.file, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(entry.payload_offset + 10);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(entry.payload_offset + 10);
    file.put(byte);
    copies.push_back(to.string());
  }
  return copies;
}

// One rank reads a damaged shard while slow collectives still use its arenas. It must report the error before it frees
// memory, and the memory must wait for the collectives. Depending on the copy, the shard is read in another
// accumulation step.
TEST(Ends, OneRanksErrorWaitsForWhatIsUnderWay) {
  SmallRun runs;
  const auto copies = damaged_copies(runs);
  ASSERT_GE(copies.size(), 2u);
  std::mutex mutex;
  std::vector<std::string> told;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    auto c = runs.config(fmt::format("one-rank-{}", i));
    c.collective_delay = 0.01;
    try {
      comm::run_ranks(3, [&](int rank, comm::ThreadsWorld& world) {
        auto w = engine::make_world("threads", rank, 3, world.factory(rank));
        w.fail = [&, rank](const std::exception& e) {
          const std::lock_guard lock(mutex);
          if (dynamic_cast<const base::InputError*>(&e) != nullptr)
            told.push_back(fmt::format("{}: {}", rank, e.what()));
        };
        auto own = c;
        if (rank == 1) own.data = copies[i];
        runs.run_rank(own, {3, 2, 1}, w);
      });
      ADD_FAILURE() << "nothing was said";
    } catch (const comm::AgreedError& e) {
      ADD_FAILURE() << "not an error of all: " << e.what();
    } catch (const base::InputError& e) {
      EXPECT_NE(std::string(e.what()).find("checksum"), std::string::npos) << e.what();
    }
  }
  ASSERT_EQ(told.size(), copies.size());
  for (const auto& t : told) EXPECT_EQ(t.find("1: shard "), 0u) << t;
}

TEST(Ends, ALossThatIsNotFiniteIsAnErrorOfAll) {
  SmallRun runs;
  auto c = runs.config("wild");
  c.learning_rate = 1e30;
  c.clip = 0;
  std::mutex mutex;
  int agreed = 0;
  comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& world) {
    auto w = engine::make_world("threads", rank, 2, world.factory(rank));
    try {
      runs.run_rank(c, {2, 2, 1}, w);
    } catch (const comm::AgreedError& e) {
      const std::lock_guard lock(mutex);
      agreed += e.code() == base::ExitCode::check_failed ? 1 : 0;
    }
  });
  EXPECT_EQ(agreed, 2);
}

// Rank 1 of two answers for `seconds` after rank 0 has begun, and then stops. Returns what the watchdog reports.
std::string said_of_a_start(double seconds, const std::function<void(engine::World&)>& begin) {
  std::promise<std::string> told;
  auto sentence = told.get_future();
  std::atomic<int> verdicts = 0;
  try {
    comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& world) {
      auto w = engine::make_world("threads", rank, 2, world.factory(rank));
      w.on_hang = [&](const std::string& said, comm::Decided) {
        if (verdicts++ == 0) told.set_value(said);
      };
      if (rank == 0) return begin(w);
      auto watchdog = engine::watch_peers(w, *w.communication, 1, {});
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      EXPECT_EQ(verdicts, 0) << "a rank that answers may work alone";
      watchdog.reset();
      sentence.wait_for(std::chrono::seconds(60));
      throw std::runtime_error("this rank went no further");
    });
    ADD_FAILURE() << "nobody missed a rank";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "this rank went no further");
  }
  return sentence.wait_for(std::chrono::seconds(0)) == std::future_status::ready ? sentence.get() : "";
}

// The start of a run, of a dry run and of an evaluation is watched. A rank that was heard, then fell silent while
// others wait is named before the first step.
TEST(Ends, ARankThatIsStoppedInAStartIsNamed) {
  SmallRun runs;
  auto c = runs.config("stalls");
  c.hang_timeout = 1;
  engine::EvaluateConfig e;
  e.checkpoint = c.output, e.run = c;
  const std::vector<std::string> said{
      said_of_a_start(4,
                      [&](engine::World& w) {
                        runs.run_rank(c, {2, 0, 1}, w);
                      }),
      said_of_a_start(0.1, [&](engine::World& w) { engine::dry_run(c, w, base::Sizes::rounded, 2); }),
      said_of_a_start(0.1, [&](engine::World& w) { engine::evaluate(e, w, {}); })};
  for (const auto& s : said) {
    EXPECT_NE(s.find("of group control, step 0, starting): rank 0 is waiting; rank 1 on "), std::string::npos) << s;
    EXPECT_TRUE(s.ends_with(" is silent (starting)")) << s;
  }
}

// The system refuses something to one rank in an agreement: the error of all ranks then has the code for the
// environment.
TEST(Ends, WhatTheSystemRefusesARankIsOfTheEnvironment) {
  comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& world) {
    auto w = engine::make_world("threads", rank, 2, world.factory(rank));
    try {
      engine::on_every_rank(w, *w.communication, [&] {
        if (rank == 1) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
      });
      ADD_FAILURE() << "nothing was said";
    } catch (const comm::AgreedError& e) {
      EXPECT_EQ(e.code(), base::ExitCode::environment);
      EXPECT_EQ(std::string(e.what()).find("rank 1: the system refuses: "), 0u) << e.what();
      EXPECT_NE(e.hint().find("ulimit -a"), std::string::npos);
    }
  });
}

// --stop-after counts from the beginning of the run: the same start repeated does nothing and reports that.
TEST(Ends, StopAfterCountsFromTheBeginning) {
  SmallRun runs;
  auto c = runs.config("stopped");
  c.stop_after = 7;
  const auto first = runs.run(c, {2, 1, 1});
  EXPECT_EQ(first.code, base::ExitCode::requeue);
  EXPECT_EQ(first.steps_done, 7);
  for (const int stop_after : {7, 3}) {
    c.stop_after = stop_after;
    const auto again = runs.run(c, {3, 0, 1});
    EXPECT_EQ(again.code, base::ExitCode::done);
    EXPECT_EQ(again.step, 7);
    EXPECT_EQ(again.steps_done, 0);
    EXPECT_EQ(again.checkpoint, first.checkpoint);
    EXPECT_EQ(SmallRun::metrics(c).size(), 7u);
  }
  c.stop_after = 0;
  EXPECT_EQ(runs.run(c, {1, 0, 1}).code, base::ExitCode::done);
  EXPECT_EQ(SmallRun::metrics(c).size(), 20u);
}

// A new start removes the exit reasons that an earlier start left.
TEST(Ends, AReasonIsOfThisRun) {
  SmallRun runs;
  const auto c = runs.config("reasons");
  std::filesystem::create_directories(c.output + "/exit");
  std::ofstream(c.output + "/exit/rank-00001.json") << R"({"rank": 1, "exit_code": 4})";
  runs.run(c, {1, 0, 1});
  EXPECT_FALSE(std::filesystem::exists(c.output + "/exit"));
}

}  // namespace
