// Tests the watchdog: it names the missing rank, reports nothing while all compute, and notices a silent rank 0.
#include "libtrain/comm/watchdog.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/comm/reason.h"
#include "libtrain/comm/threads.h"
#include "libtrain/comm/watchdog_report.h"
#include "tests/comm/played_rank.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

namespace trainyard::comm {
namespace {

using namespace std::chrono_literals;

Heard at(std::uint64_t sequence, double open_seconds, const char* operation, bool silent = false) {
  Heard h;
  h.silent = silent;
  h.report.step = 17;
  h.report.ledgers[0].sequence = sequence;
  h.report.ledgers[0].in_call = open_seconds > 0;
  h.report.ledgers[0].open_seconds = open_seconds;
  std::strcpy(h.report.ledgers[0].operation, operation);
  return h;
}

TEST(judge, is_quiet_before_the_timeout_and_outside_of_calls) {
  EXPECT_FALSE(find_hang({at(5, 9, "all_gather"), at(4, 0, "barrier")}, {{"data"}}, 10));
  EXPECT_FALSE(find_hang({at(5, 0, "all_gather"), at(1, 0, "barrier")}, {{"data"}}, 10));
  EXPECT_FALSE(find_hang({at(5, 99, "all_gather", true), at(5, 0, "all_gather")}, {{"data"}}, 10));
}

TEST(judge, names_the_call_the_step_and_the_ranks) {
  const auto hang =
      find_hang({at(5, 12, "all_gather"), at(4, 0, "barrier"), at(5, 11, "all_gather"), at(4, 0, "barrier", true)},
                {{"data"}}, 10);
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->sentence,
            "no progress for 12 s in all_gather (call 5 of group data, step 17): ranks 0, 2 are waiting; "
            "rank 1 is behind (computing after call 4, barrier); rank 3 is silent");
  const auto network = find_hang({at(5, 12, "all_gather"), at(5, 11, "all_gather")}, {{"data"}}, 10);
  ASSERT_TRUE(network);
  EXPECT_NE(network->sentence.find("the network may have failed"), std::string::npos);
}

// Two ranks wait for a third in different calls. Whichever clock is ahead, the verdict names the earlier call.
// Otherwise the verdict would never be confirmed.
TEST(judge, stays_with_the_earliest_call) {
  for (const double ahead : {0.4, -0.4}) {
    const auto hang = find_hang({at(5, 12, "all_to_all"), at(4, 0, "barrier", true), at(6, 12 + ahead, "all_gather")},
                                {{"data"}}, 10);
    ASSERT_TRUE(hang);
    EXPECT_EQ(hang->sequence, 5u) << ahead;
    EXPECT_EQ(
        hang->sentence,
        "no progress for 12 s in all_to_all (call 5 of group data, step 17): rank 0 is waiting; rank 1 is silent");
  }
}

// During a start, a rank that answers may work alone. A silent rank may be busy, out of reach, or waiting itself.
// Missing is only a rank that was heard before, is gone, and was not seen inside the call.
TEST(judge, patiently_misses_only_who_is_gone) {
  const std::vector<WatchedGroup> start{{"control", {}, WatchedGroup::Judged::patiently}};
  const auto waits = at(5, 12, "all_gather"), works = at(4, 0, "barrier");
  auto silent = at(4, 0, "barrier", true), inside = at(5, 3, "all_gather", true);
  EXPECT_FALSE(find_hang({waits, works}, start, 10));
  EXPECT_FALSE(find_hang({waits, silent}, start, 10));
  inside.gone = true;
  EXPECT_FALSE(find_hang({waits, works, inside}, start, 10));
  silent.gone = true;
  EXPECT_FALSE(find_hang({at(5, 9, "all_gather"), silent}, start, 10));
  const auto hang = find_hang({waits, silent, works}, start, 10);
  ASSERT_TRUE(hang);
  EXPECT_NE(hang->sentence.find("; rank 1 is silent"), std::string::npos) << hang->sentence;
}

// If all ranks answer and all wait, nobody works. The network may have failed, or the ranks wait for one another.
TEST(judge, patiently_sees_that_all_wait) {
  const std::vector<WatchedGroup> start{{"control", {}, WatchedGroup::Judged::patiently}};
  const auto hang = find_hang({at(5, 12, "all_gather"), at(5, 11, "all_gather")}, start, 10);
  ASSERT_TRUE(hang);
  EXPECT_NE(hang->sentence.find("the network may have failed"), std::string::npos) << hang->sentence;
  EXPECT_FALSE(find_hang({at(5, 12, "all_gather"), at(5, 11, "all_gather"), at(5, 0, "all_gather")}, start, 10));
}

// Ranks 0 to 3 as two replicas of two tensor-parallel ranks. Ledger 0 counts the calls of {0, 2} and {1, 3}, ledger 1
// the calls of {0, 1} and {2, 3}.
std::vector<WatchedGroup> replicas() { return {{"data", {0, 1, 0, 1}}, {"tensor", {0, 0, 2, 2}}}; }

struct Place {
  std::uint64_t sequence;
  double open_seconds;
};
std::vector<Heard> of_replicas(const std::vector<std::pair<Place, Place>>& places) {
  std::vector<Heard> all;
  for (const auto& [data, tensor] : places) {
    auto h = at(data.sequence, data.open_seconds, "reduce_scatter");
    auto& other = h.report.ledgers[1];
    other.sequence = tensor.sequence, other.in_call = tensor.open_seconds > 0, other.open_seconds = tensor.open_seconds;
    std::strcpy(other.operation, "all_to_all");
    h.report.rank = static_cast<std::int32_t>(all.size());
    all.push_back(h);
  }
  return all;
}

TEST(judge, says_what_is_done) {
  auto ranks = std::vector<Heard>{at(5, 12, "activations"), at(4, 0, "activations"), at(4, 0, "activations", true)};
  std::snprintf(ranks[0].report.doing, sizeof ranks[0].report.doing, "stage 2, forward of micro-batch 3");
  std::snprintf(ranks[1].report.doing, sizeof ranks[1].report.doing, "stage 1, backward of micro-batch 0");
  std::snprintf(ranks[2].report.doing, sizeof ranks[2].report.doing, "stage 0, forward of micro-batch 4");
  const auto hang = find_hang(ranks, {{"pipe"}}, 10);
  ASSERT_TRUE(hang);
  EXPECT_NE(
      hang->sentence.find("(call 5 of group pipe, step 17, stage 2, forward of micro-batch 3): rank 0 is waiting; "
                          "rank 1 is behind (computing after call 4, activations, stage 1, backward of "
                          "micro-batch 0); rank 2 is silent (stage 0, forward of micro-batch 4)"),
      std::string::npos)
      << hang->sentence;
}

// A replica without micro-batches in the last accumulation step makes fewer tensor-parallel calls, but is not behind.
TEST(judge, compares_the_ranks_of_a_group_alone) {
  const auto network = find_hang(
      of_replicas({{{5, 0}, {40, 12}}, {{5, 0}, {40, 11}}, {{5, 0}, {30, 0}}, {{5, 0}, {30, 0}}}), replicas(), 10);
  ASSERT_TRUE(network);
  EXPECT_EQ(network->sentence,
            "no progress for 12 s in all_to_all (call 40 of group tensor of ranks 0, 1, step 17): ranks 0, 1 are "
            "waiting; nobody is missing, so the network may have failed");
  EXPECT_EQ(network->group, 0);
  const auto behind = find_hang(
      of_replicas({{{5, 0}, {40, 0}}, {{5, 0}, {40, 0}}, {{5, 0}, {30, 0}}, {{5, 0}, {31, 12}}}), replicas(), 10);
  ASSERT_TRUE(behind);
  EXPECT_EQ(behind->sentence,
            "no progress for 12 s in all_to_all (call 31 of group tensor of ranks 2, 3, step 17): rank 3 is waiting; "
            "rank 2 is behind (computing after call 30, all_to_all)");
  EXPECT_EQ(behind->group, 2);
  EXPECT_FALSE(network->same_call(*behind));
}

// Rank 3 stalls. Rank 2 waits for it in the tensor group; ranks 0 and 1 wait for both in the group of all ranks, which
// shows less.
TEST(judge, looks_last_at_calls_of_all) {
  const std::vector<WatchedGroup> groups{{"control", {}, WatchedGroup::Judged::last}, replicas()[1]};
  const auto hang = find_hang(
      of_replicas({{{6, 13}, {40, 0}}, {{6, 13}, {40, 0}}, {{5, 0}, {31, 12}}, {{5, 0}, {30, 0}}}), groups, 10);
  ASSERT_TRUE(hang);
  EXPECT_NE(hang->sentence.find("of group tensor of ranks 2, 3, step 17): rank 2 is waiting; rank 3 is behind"),
            std::string::npos)
      << hang->sentence;
}

// Rank 3 stalls. Rank 2 waits for it in the tensor group, rank 1 in the data group, and rank 0 waits for rank 2. The
// verdict is about a call that lacks rank 3, not about the first call that waits.
TEST(judge, names_who_waits_for_nobody) {
  const auto hang = find_hang(
      of_replicas({{{6, 13}, {40, 0}}, {{6, 12}, {40, 0}}, {{5, 0}, {31, 13}}, {{5, 0}, {30, 0}}}), replicas(), 10);
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->sentence,
            "no progress for 12 s in reduce_scatter (call 6 of group data of ranks 1, 3, step 17): rank 1 is waiting; "
            "rank 3 is behind (computing after call 5, reduce_scatter)");
  // Each waits for the other, in calls of different groups. The verdict names the call of the first ledger.
  const auto circle = find_hang(
      of_replicas({{{6, 13}, {40, 0}}, {{5, 0}, {40, 0}}, {{5, 0}, {31, 13}}, {{6, 13}, {30, 0}}}), replicas(), 10);
  ASSERT_TRUE(circle);
  EXPECT_EQ(circle->sentence.find("no progress for 13 s in reduce_scatter (call 6 of group data of ranks 1, 3"), 0u)
      << circle->sentence;
}

struct Alarms {
  std::mutex mutex;
  std::vector<std::string> sentences;
  std::vector<std::string> addresses;
  void add(const std::string& s) {
    std::lock_guard lock(mutex);
    sentences.push_back(s);
  }
  std::size_t count() {
    std::lock_guard lock(mutex);
    return sentences.size();
  }
};

// Four ranks with watchdogs. An alarm poisons the world, as an exit would. A rank that is woken by it leaves only after
// an alarm of its own, because its watchdog may be about to receive the verdict.
void watched(Alarms& alarms, int mute, const std::function<void(int, Communicator&, tensor::Exec&)>& body) {
  alarms.addresses.resize(4);
  run_ranks(4, [&](int rank, ThreadsWorld& world) {
    auto comm = world.communicator(rank, "data");
    auto exec = tensor::Exec::caller(nullptr, 1);
    std::promise<void> alarmed;
    WatchdogOptions options{rank, 4, 0.4, 0.05, [&](const std::string& s, Decided) {
                              alarms.add(s);
                              world.poison();
                              alarmed.set_value();
                            }};
    Watchdog dog(options, {{{"data"}, &comm->ledger()}});
    alarms.addresses[static_cast<std::size_t>(rank)] = dog.address();
    comm->barrier(*exec);
    dog.set_step(23);
    if (rank != mute) dog.start(alarms.addresses);
    try {
      body(rank, *comm, *exec);
      comm->barrier(*exec);
    } catch (const base::PeerError&) {
      if (rank != mute) alarmed.get_future().wait_for(10s);
      throw;
    }
  });
}

TEST(watchdog, one_rank_that_stalls_is_named_on_every_rank) {
  Alarms alarms;
  EXPECT_THROW(watched(alarms, -1,
                       [](int rank, Communicator& comm, tensor::Exec& exec) {
                         comm.barrier(exec);
                         if (rank == 2) std::this_thread::sleep_for(1500ms);
                       }),
               base::PeerError);
  ASSERT_EQ(alarms.sentences.size(), 4u);
  for (const auto& s : alarms.sentences) {
    EXPECT_NE(s.find("in barrier (call 3 of group data, step 23): ranks 0, 1, 3 are waiting; rank 2 on " +
                     base::host_name() + " is behind (computing after call 2, barrier)"),
              std::string::npos)
        << s;
  }
}

TEST(watchdog, long_computing_on_all_ranks_is_no_hang) {
  Alarms alarms;
  watched(alarms, -1, [](int, Communicator& comm, tensor::Exec& exec) {
    for (int i = 0; i < 2; ++i) {
      std::this_thread::sleep_for(600ms);
      comm.barrier(exec);
    }
  });
  EXPECT_TRUE(alarms.sentences.empty());
}

TEST(watchdog, a_silent_rank_zero_is_named_by_the_others) {
  Alarms alarms;
  EXPECT_THROW(watched(alarms, 0,
                       [](int rank, Communicator&, tensor::Exec&) {
                         if (rank == 0) std::this_thread::sleep_for(3s);
                       }),
               base::PeerError);
  ASSERT_EQ(alarms.sentences.size(), 3u);
  for (const auto& s : alarms.sentences)
    EXPECT_EQ(s.find("rank 0 on " + base::host_name() + " is silent and rank "), 0u) << s;
}

TEST(watchdog, the_usual_end_writes_the_reason_and_leaves_with_6) {
  const auto folder = testing::TempDir() + "watchdog_exit";
  EXPECT_EXIT(end_job_on_hang(folder, 3)("rank 2 is \"behind\"", Decided::here), testing::ExitedWithCode(6), "");
  const auto path = folder + "/rank-00003.json";
  const auto reason = nlohmann::json::parse(std::ifstream(path));
  EXPECT_EQ(reason["rank"], 3);
  EXPECT_EQ(reason["exit_code"], 6);
  EXPECT_EQ(reason["reason"], "rank 2 is \"behind\"");
  EXPECT_EQ(reason["host"], base::host_name());
  std::ofstream(folder + "/rank-notes.json") << "mine";
  forget_reasons(folder);
  EXPECT_FALSE(std::filesystem::exists(path)) << "a reason is not mistaken for one of the next run";
  EXPECT_TRUE(std::filesystem::exists(folder + "/rank-notes.json")) << "nobody else's file is removed";
  std::filesystem::remove(folder + "/rank-notes.json");
  forget_reasons(folder);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EXIT(end_job_on_hang({}, 77)("nothing is written", Decided::here), testing::ExitedWithCode(6), "");
  EXPECT_FALSE(std::filesystem::exists("/rank-00077.json"));
}

struct Told {
  std::vector<std::string> sentences;
  std::string log;
};

enum class Ending { killed, farewell, never_spoke };

// Two watchdogs, one of which ends; a killed one is in a process of its own. `other_place` is put before the addresses
// that both send.
Told told_after(int ending_rank, Ending ending, const std::string& other_place = "",
                const std::string& host = base::host_name()) {
  WatchdogOptions options{0, 2, 600, 0.05, {}};
  Alarms alarms;
  options.on_hang = [&](const std::string& s, Decided) { alarms.add(s); };
  testing::internal::CaptureStderr();
  {
    Watchdog stays(
        [&] {
          auto o = options;
          o.rank = 1 - ending_rank;
          return o;
        }(),
        {});
    auto ends = std::make_unique<Watchdog>(
        [&] {
          auto o = options;
          o.rank = ending_rank;
          return o;
        }(),
        std::vector<WatchedLedger>{});
    const auto told = ends->address();
    std::vector<std::string> addresses{other_place + stays.address(), other_place + stays.address()};
    addresses[static_cast<std::size_t>(ending_rank)] = other_place + told.substr(0, told.find(' ') + 1) + host;
    const auto process = ending == Ending::killed ? fork() : -1;
    if (process == 0) {
      ends->start(addresses);
      std::this_thread::sleep_for(400ms);
      _exit(0);
    }
    if (ending == Ending::killed) ends.reset();
    stays.start(addresses);
    if (ending == Ending::farewell) ends->start(addresses);
    std::this_thread::sleep_for(200ms);
    ends.reset();
    if (process > 0) waitpid(process, nullptr, 0);
    for (int i = 0; i < 30 && alarms.count() == 0; ++i) std::this_thread::sleep_for(50ms);
  }
  return {alarms.sentences, testing::internal::GetCapturedStderr()};
}

TEST(watchdog, a_rank_that_ends_without_a_word_is_told_with_its_host) {
  for (const int ending : {0, 1}) {
    const auto told = told_after(ending, Ending::killed).sentences;
    ASSERT_EQ(told.size(), 1u) << ending;
    EXPECT_EQ(told[0].find("rank " + std::to_string(ending) + " on " + base::host_name() + " has ended without a word"),
              0u)
        << told[0];
  }
}

// On machines whose first addresses lead nowhere (here: the system refuses to send to them), ranks are found at the
// next addresses.
TEST(watchdog, a_rank_is_found_at_any_address_of_its_machine) {
  const auto told = told_after(0, Ending::killed, "255.255.255.255,", "elsewhere").sentences;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].find("rank 0 on elsewhere has ended without a word"), 0u) << told[0];
}

TEST(watchdog, a_rank_that_says_farewell_is_not_missed) {
  for (const int ending : {0, 1}) {
    const auto told = told_after(ending, Ending::farewell);
    EXPECT_TRUE(told.sentences.empty()) << ending << told.sentences[0];
    EXPECT_EQ(told.log, "");
  }
}

// A firewall refuses, or an address belongs to another machine: no verdict on a healthy rank, and one warning.
TEST(watchdog, a_refusal_from_where_nothing_was_ever_heard_ends_nothing) {
  for (const int unheard : {0, 1}) {
    const auto told = told_after(unheard, Ending::never_spoke);
    EXPECT_TRUE(told.sentences.empty()) << told.sentences[0];
    const auto warning =
        "the watchdog has not heard rank " + std::to_string(unheard) + " on " + base::host_name() + " for 1 s";
    const auto at = told.log.find(warning);
    EXPECT_NE(at, std::string::npos) << told.log;
    EXPECT_EQ(told.log.find(warning, at + 1), std::string::npos) << told.log;
  }
}

// Rank 0 is a socket of this test. It answers rank 1's farewell after `answered` of them. Returns how many came until
// then.
int farewells_until_answered(double interval_seconds, int answered) {
  const auto here = socket_of_this_test();
  const int socket = here.first;
  const timeval timeout{5, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  int farewells = 0;
  const auto receive = [&](sockaddr_in& from) {
    Report r;
    socklen_t size = sizeof from;
    if (recvfrom(socket, &r, sizeof r, 0, reinterpret_cast<sockaddr*>(&from), &size) != static_cast<ssize_t>(sizeof r))
      r.kind = Report::verdict;
    return r;
  };
  auto dog = std::make_unique<Watchdog>(WatchdogOptions{1, 2, 600, interval_seconds, {}}, std::vector<WatchedLedger>{});
  dog->start({here.second, dog->address()});
  sockaddr_in from{};
  auto words = receive(from);
  EXPECT_EQ(words.kind, Report::state);
  words.rank = 0;
  const auto say = [&] { send_sealed(socket, {}, words, "", from); };
  say();
  std::this_thread::sleep_for(300ms);
  std::thread leaving([&] { dog.reset(); });
  while (farewells < answered) {
    const auto r = receive(from);
    if (r.kind == Report::verdict) break;
    farewells += r.kind == Report::farewell;
  }
  words.kind = Report::farewell_heard;
  say();
  leaving.join();
  close(socket);
  return farewells;
}

// A rank that is stopped as soon as it has started was heard nevertheless.
TEST(watchdog, speaks_before_its_thread_runs) {
  const auto here = socket_of_this_test();
  const int socket = here.first;
  Watchdog dog({1, 2, 600, 0.05, {}}, {});
  dog.start({here.second, dog.address()});
  Report r;
  EXPECT_EQ(recv(socket, &r, sizeof r, MSG_DONTWAIT), static_cast<ssize_t>(sizeof r));
  EXPECT_EQ(r.kind, Report::state);
  EXPECT_EQ(r.rank, 1);
  close(socket);
}

// The network loses the first farewells.
TEST(watchdog, a_farewell_is_repeated_until_it_is_answered) { EXPECT_EQ(farewells_until_answered(1, 6), 6); }

// An unanswered farewell would make the watchdog wait 400 s, longer than this test may take.
TEST(watchdog, once_a_farewell_is_answered_nothing_is_waited_for) { EXPECT_EQ(farewells_until_answered(100, 1), 1); }

}  // namespace
}  // namespace trainyard::comm
