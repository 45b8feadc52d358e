// Tests schedules of pipelines: orders and idle fractions of the literature. For all small shapes every list must be
// correct and without deadlock, and mistakes in lists must be found.
#include "libtrain/plan/schedule/simulate.h"

#include "libtrain/plan/schedule/shared_cores.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

namespace trainyard::plan {
namespace {

using enum PipelineSchedule;
constexpr PipelineSchedule all_schedules[] = {naive, gpipe, one_f_one_b, interleaved, zero_bubble};

std::vector<std::vector<Action>> lists_of(PipelineSchedule schedule, int micros, int stages, int chunks = 1) {
  const BatchPlan batch{micros, 1, 1, 1};
  std::vector<std::vector<Action>> out;
  for (int s = 0; s < stages; ++s) out.push_back(step_actions(batch, 0, {schedule, stages, chunks}, s));
  return out;
}

std::vector<PartCosts> costs_of(int parts, double forward, double backward) {
  return std::vector<PartCosts>(static_cast<std::size_t>(parts), {forward, backward / 2, backward / 2, 1});
}

Simulated simulated(PipelineSchedule schedule, int micros, int stages, int chunks = 1, double forward = 1,
                    double backward = 1, double message = 0) {
  return simulate(lists_of(schedule, micros, stages, chunks), chunks, costs_of(stages * chunks, forward, backward),
                  message, micros);
}

// "F0 F1 B0"; with several virtual stages "F0.1".
std::string order(PipelineSchedule schedule, int micros, int stages, int stage, int chunks = 1) {
  std::string out;
  for (const auto& w : stage_work(schedule, micros, stages, chunks, stage)) {
    if (!out.empty()) out += ' ';
    out += fmt::format("{}{}", "FBIW"[static_cast<int>(w.kind)], w.micro);
    if (chunks > 1) out += fmt::format(".{}", w.chunk);
  }
  return out;
}

TEST(Pipeline, OneForwardOneBackwardOfTheLiterature) {
  EXPECT_EQ(order(one_f_one_b, 4, 4, 0), "F0 F1 F2 F3 B0 B1 B2 B3");
  EXPECT_EQ(order(one_f_one_b, 4, 4, 1), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(order(one_f_one_b, 4, 4, 2), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(order(one_f_one_b, 4, 4, 3), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(order(naive, 2, 4, 1), "F0 B0 F1 B1");
  EXPECT_EQ(order(gpipe, 3, 4, 3), "F0 F1 F2 B0 B1 B2");
}

TEST(Pipeline, InterleavedGroupsPassThroughOneChunkAfterTheOther) {
  EXPECT_EQ(order(interleaved, 4, 2, 0, 2),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(order(interleaved, 4, 2, 1, 2),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(order(interleaved, 4, 4, 1), order(one_f_one_b, 4, 4, 1));
}

TEST(Pipeline, WeightGradientsWaitForTheEnd) {
  EXPECT_EQ(order(zero_bubble, 4, 2, 0), "F0 F1 I0 W0 F2 I1 W1 F3 I2 W2 I3 W3");
  EXPECT_EQ(order(zero_bubble, 4, 2, 1), "F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3");
}

TEST(Simulate, IdleFractionsOfTheLiterature) {
  const auto idle = [](int m, int p) { return (p - 1.0) / (m + p - 1.0); };
  EXPECT_NEAR(idle(4, 4), 0.4286, 1e-4);
  for (const auto& [m, p] : {std::pair{4, 2}, {4, 4}, {8, 4}, {1, 4}, {12, 6}})
    for (const auto schedule : {gpipe, one_f_one_b}) {
      EXPECT_NEAR(simulated(schedule, m, p).idle_fraction(), idle(m, p), 1e-12) << m << " " << p;
      EXPECT_NEAR(simulated(schedule, m, p, 1, 1, 2).seconds, (m + p - 1) * 3, 1e-12) << m << " " << p;
    }
  EXPECT_NEAR(simulated(naive, 4, 4).idle_fraction(), 0.75, 1e-12);
}

TEST(Simulate, TheInterleavedBubbleIsDividedByTheChunks) {
  for (int chunks = 1; chunks <= 3; ++chunks)
    for (int p = 2; p <= 4; ++p)
      for (int m = p; m <= 12; m += p) {
        const auto s = simulated(interleaved, m, p, chunks, 1.0 / chunks, 2.0 / chunks);
        EXPECT_NEAR(s.seconds / (3 * m) - 1, (p - 1.0) / (chunks * m), 1e-12) << chunks << " " << p << " " << m;
      }
}

TEST(Simulate, ZeroBubbleHasAThirdOfTheBubble) {
  for (int p = 1; p <= 6; ++p)
    for (int m = 1; m <= 12; ++m) {
      const auto whole = simulated(one_f_one_b, m, p, 1, 1, 2), split = simulated(zero_bubble, m, p, 1, 1, 2);
      EXPECT_LE(split.seconds, whole.seconds) << m << " " << p;
      if (m >= p) {
        EXPECT_NEAR(split.seconds, 3 * m + (p - 1), 1e-12) << m << " " << p;
      }
    }
}

// All shapes, with messages that take no time, some time, and longer than computing.
TEST(Simulate, EveryScheduleIsLiveAndRight) {
  int cases = 0;
  for (const auto schedule : all_schedules)
    for (int p = 1; p <= 6; ++p)
      for (int v = 1; v <= (schedule == interleaved && p > 1 ? 3 : 1); ++v)
        for (int m = 1; m <= 12; ++m)
          for (const double message : {0.0, 0.1, 5.0}) {
            const auto s = simulated(schedule, m, p, v, 1, 2, message);
            EXPECT_EQ(s.problem, "") << order(schedule, m, p, 0, v);
            EXPECT_GE(s.seconds, 3.0 * m * v);
            ++cases;
          }
  EXPECT_GT(cases, 1000);
}

TEST(Simulate, MicroBatchesInFlight) {
  for (int p = 1; p <= 6; ++p)
    for (int m = 1; m <= 12; ++m) {
      const auto one = simulated(one_f_one_b, m, p), all = simulated(gpipe, m, p), split = simulated(zero_bubble, m, p);
      const auto lists = lists_of(one_f_one_b, m, p);
      for (int s = 0; s < p; ++s) {
        const auto i = static_cast<std::size_t>(s);
        EXPECT_EQ(one.stages[i].most_in_flight, std::vector{std::min(p - s, m)});
        EXPECT_EQ(slots_of(lists[i], 1), one.stages[i].most_in_flight);
        EXPECT_EQ(all.stages[i].most_in_flight, std::vector{m});
        EXPECT_LE(split.stages[i].most_in_flight[0], std::min(p, m));
        EXPECT_EQ(one.stages[i].peak_bytes, std::min(p - s, m));
      }
    }
}

TEST(Simulate, SlotsOfChunks) {
  for (int p = 2; p <= 6; ++p)
    for (int m = 1; m <= 12; ++m) {
      const auto lists = lists_of(interleaved, m, p, 3);
      const auto s = simulate(lists, 3, costs_of(3 * p, 1, 2), 0.1, m);
      for (std::size_t i = 0; i < lists.size(); ++i) EXPECT_EQ(slots_of(lists[i], 3), s.stages[i].most_in_flight);
    }
}

// Swaps two neighbouring actions. The list is then dead or wrong, unless neither action needs the other: a receive
// beside a send or a computation, and computations of different micro-batches.
TEST(Simulate, SwappedActionsAreFound) {
  using Kind = Action::Kind;
  const auto costs = costs_of(4, 1, 2);
  int found = 0;
  const auto message = [](Kind k) {
    return k == Kind::receive_activations || k == Kind::receive_gradients || k == Kind::send_activations ||
           k == Kind::send_gradients;
  };
  for (const auto schedule : {gpipe, one_f_one_b, zero_bubble}) {
    const auto lists = lists_of(schedule, 4, 4);
    for (std::size_t s = 0; s < 4; ++s)
      for (std::size_t i = 0; i + 1 < lists[s].size(); ++i) {
        auto swapped = lists;
        const auto &first = lists[s][i], &second = lists[s][i + 1];
        std::swap(swapped[s][i], swapped[s][i + 1]);
        if (!simulate(swapped, 1, costs, 0.1, 4).problem.empty()) {
          ++found;
          continue;
        }
        EXPECT_TRUE((first.micro >= 0 && second.micro >= 0) || message(first.kind) || message(second.kind))
            << name_of(first.kind) << " and " << name_of(second.kind) << " of stage " << s;
        const bool of_one = first.micro == second.micro;
        EXPECT_TRUE(!of_one || (message(first.kind) && !message(second.kind)) ||
                    (first.kind == Kind::send_gradients || second.kind == Kind::send_gradients))
            << name_of(first.kind) << " and " << name_of(second.kind) << " of stage " << s;
      }
  }
  EXPECT_GT(found, 60);

  const auto with = [&](std::size_t stage, Action::Kind a, std::int64_t micro_a, Action::Kind b, std::int64_t micro_b) {
    auto lists = lists_of(one_f_one_b, 4, 4);
    const auto at = [&](Action::Kind kind, std::int64_t micro) {
      return std::find_if(lists[stage].begin(), lists[stage].end(),
                          [&](const Action& x) { return x.kind == kind && x.micro == micro; });
    };
    std::iter_swap(at(a, micro_a), at(b, micro_b));
    return simulate(lists, 1, costs, 0.1, 4).problem;
  };
  EXPECT_EQ(with(1, Kind::send_activations, 0, Kind::send_activations, 1),
            "stage 1: send_activations of micro-batch 1, which slot 1 does not hold");
  EXPECT_EQ(with(2, Kind::send_activations, 0, Kind::forward, 0),
            "stage 2: send_activations of micro-batch 0 after its load");
  EXPECT_EQ(with(0, Kind::send_activations, 0, Kind::receive_gradients, 0),
            "stage 0: gradients of micro-batch 0 may arrive where its activations are");
  EXPECT_EQ(with(3, Kind::forward, 0, Kind::backward, 0), "stage 3: backward of micro-batch 0 after its load");
  EXPECT_EQ(with(0, Kind::load, 0, Kind::update, -1).substr(0, 8), "stage 0:");
}

TEST(Simulate, AStepBeginsWithAnAgreementAndEndsWithAnUpdate) {
  using Kind = Action::Kind;
  const auto problem = [](const std::function<void(std::vector<Action>&)>& change, int micros = 4) {
    auto lists = lists_of(one_f_one_b, 4, 2);
    for (auto& list : lists) change(list);
    return simulate(lists, 1, costs_of(2, 1, 2), 0.1, micros).problem;
  };
  const auto without = [](Kind kind) {
    return [kind](std::vector<Action>& list) { std::erase_if(list, [&](const Action& a) { return a.kind == kind; }); };
  };
  EXPECT_EQ(problem([](auto&) {}), "");
  EXPECT_EQ(problem(without(Kind::ask)), "stage 0: round 0 is agreed on unasked");
  EXPECT_EQ(problem(without(Kind::agree)), "stage 0: micro-batch 0 before an agreement");
  EXPECT_EQ(problem(without(Kind::update)), "stage 0 ends without an update");
  EXPECT_EQ(problem(without(Kind::reduce)), "stage 1: an update without a reduction before");
  EXPECT_EQ(problem([](auto& list) { std::rotate(list.begin() + 2, list.end() - 2, list.end()); }),
            "stage 0: load of micro-batch 0 behind a update");
  EXPECT_EQ(problem([](auto& list) { std::swap(list[list.size() - 3], list[list.size() - 2]); }).substr(7),
            ": send_gradients of micro-batch 3 behind a reduce");
  EXPECT_EQ(problem([](auto& list) { std::erase_if(list, [](const Action& a) { return a.micro == 2; }); }),
            "stage 0 computes 3 micro-batches of 4");
  EXPECT_EQ(problem([](auto& list) {
              for (auto& a : list)
                if (a.kind == Kind::load) a.slot = -1;
            }),
            "stage 0: load of micro-batch 0 in slot -1 of chunk 0");
}

// One stage in every order. It agrees before each accumulation step only if the one before has ended by then.
TEST(Simulate, OneStageIsRightToo) {
  for (const auto schedule : all_schedules)
    for (int chunks = 1; chunks <= (schedule == interleaved ? 3 : 1); ++chunks)
      EXPECT_EQ(simulated(schedule, 5, 1, chunks, 1, 2, 0.1).problem, "")
          << static_cast<int>(schedule) << " " << chunks;
}

// Lists that are each correct alone, but do not fit each other.
TEST(Simulate, ListsThatDoNotFitOneAnotherAreDeadOrWrong) {
  const auto of = [](PipelineSchedule first, PipelineSchedule second) {
    auto lists = lists_of(first, 4, 2);
    lists[1] = lists_of(second, 4, 2)[1];
    return simulate(lists, 1, costs_of(2, 1, 2), 0, 4).problem;
  };
  EXPECT_EQ(of(naive, one_f_one_b), "");  // the last stage does the same in both
  EXPECT_EQ(of(naive, gpipe),
            "nobody can go on: stage 0 waits for the gradients of micro-batch 0; stage 1 waits for the activations of "
            "micro-batch 1");
  auto lists = lists_of(one_f_one_b, 4, 2);
  for (auto& a : lists[1])
    if (a.micro == 1 || a.micro == 2) a.micro = 3 - a.micro;
  EXPECT_EQ(simulate(lists, 1, costs_of(2, 1, 2), 0, 4).problem,
            "stage 1 awaits the activations of micro-batch 2, and gets those of 1");
  lists = lists_of(one_f_one_b, 4, 2);
  lists[1] = lists_of(one_f_one_b, 3, 2)[1];
  EXPECT_EQ(simulate(lists, 1, costs_of(2, 1, 2), 0, 4).problem,
            "nobody can go on: stage 0 waits for the gradients of micro-batch 3");
}

TEST(Simulate, ASlotThatIsReusedOneActionEarlyIsFound) {
  auto lists = lists_of(one_f_one_b, 4, 2);
  for (auto& a : lists[0])
    if (a.slot == 1) a.slot = 0;
  EXPECT_EQ(simulate(lists, 1, costs_of(2, 1, 2), 0, 4).problem,
            "stage 0: slot 0 is taken for micro-batch 1 while 0 is in it");
}

// With as many cores as ranks nothing is shared.
TEST(SharedCores, AStageWithCoresOfItsOwnIsAsFastAsAlone) {
  for (const auto schedule : all_schedules)
    for (int p = 1; p <= 5; ++p)
      for (const int chunks : {1, 2}) {
        if (chunks > 1 && (schedule != interleaved || p == 1)) continue;
        const auto alone = simulated(schedule, 2 * p, p, chunks, 1, 3);
        EXPECT_NEAR(shared_core_seconds(alone, p * chunks, 1, 0), alone.seconds, 1e-9) << p;
        // On a single core all work comes one after the other.
        EXPECT_NEAR(shared_core_seconds(alone, p * chunks, p, 0), 2.0 * p * p * chunks * 4, 1e-9) << p;
      }
}

// Expected by another simulation, of stages as coroutines in a scripting language.
TEST(SharedCores, StagesThatComputeShareTheCoresEqually) {
  const auto four = simulated(one_f_one_b, 8, 4, 1, 1, 2);
  EXPECT_NEAR(shared_core_seconds(four, 4, 2, 0), 51, 1e-9);        // two cores for four stages
  EXPECT_NEAR(shared_core_seconds(four, 4, 4.0 / 3, 0), 38, 1e-9);  // three
  EXPECT_NEAR(shared_core_seconds(four, 4, 1, 0), 33, 1e-9);
  const std::vector<PartCosts> uneven{{1, 1, 0.5, 1}, {2, 2, 1, 1}, {0.5, 2, 0.5, 1}};
  const auto three = simulate(lists_of(one_f_one_b, 5, 3), 1, uneven, 0, 5);
  EXPECT_NEAR(three.seconds, 28.5, 1e-9);
  EXPECT_NEAR(shared_core_seconds(three, 3, 1.5, 0), 29, 1e-9);
  // A message takes its time whoever has the cores: two stages, one micro-batch, there and back.
  EXPECT_NEAR(shared_core_seconds(simulated(one_f_one_b, 1, 2, 1, 1, 2, 0.25), 2, 2, 0.25), 6.5, 1e-9);
}

// In an uneven last accumulation step, ranks of a stage without a micro-batch still do their actions in the same order.
TEST(Schedule, ListsOfAllDataRanksHaveTheSameShape) {
  for (const auto schedule : all_schedules)
    for (int p = 1; p <= 4; ++p)
      for (int local_accumulation = 1; local_accumulation <= 2; ++local_accumulation)
        for (int groups = 3; groups <= 7; ++groups) {
          const BatchPlan batch{2 * groups * local_accumulation, 2, local_accumulation, 3};
          for (int s = 0; s < p; ++s) {
            const auto reduction_positions = [&](int r) {
              auto list = step_actions(batch, r, {schedule, p, 1}, s);
              std::erase_if(list, [](const Action& a) {
                using Kind = Action::Kind;
                return a.kind == Kind::load || a.kind == Kind::receive_activations ||
                       a.kind == Kind::send_activations || a.kind == Kind::receive_gradients ||
                       a.kind == Kind::send_gradients;
              });
              for (auto& a : list) a.micro = a.slot = -1;
              return list;
            };
            EXPECT_EQ(reduction_positions(0), reduction_positions(1));
            EXPECT_EQ(reduction_positions(0), reduction_positions(2));
          }
          for (int r = 0; r < 3; ++r) {
            std::vector<std::vector<Action>> column;
            for (int s = 0; s < p; ++s) column.push_back(step_actions(batch, r, {schedule, p, 1}, s));
            EXPECT_EQ(simulate(column, 1, costs_of(p, 1, 2), 0.1, batch.micros_of(r)).problem, "");
          }
        }
}

}  // namespace
}  // namespace trainyard::plan
