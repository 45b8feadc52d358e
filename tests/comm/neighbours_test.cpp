// Tests pipeline stages among threads: orders that would deadlock with one queue, rings, ledgers, and errors.
#include "libtrain/comm/neighbours.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/comm/delayed.h"
#include "libtrain/comm/threads.h"
#include "tests/comm/pipeline.h"

#include <atomic>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>

namespace trainyard::comm {
namespace {

using base::View;
using plan::Axis;
using plan::Topology;
using Ends = NeighboursOptions::Ends;
using namespace std::chrono_literals;

enum class Compute { caller, worker };

class Stages : public testing::TestWithParam<std::tuple<int, Compute, pipeline::Receives>> {};
INSTANTIATE_TEST_SUITE_P(stages, Stages,
                         testing::Combine(testing::Values(2, 3, 4, 5, 6),
                                          testing::Values(Compute::caller, Compute::worker),
                                          testing::Values(pipeline::Receives::when_needed, pipeline::Receives::ahead)));

std::unique_ptr<tensor::Exec> exec_of(Compute kind) {
  return kind == Compute::caller ? tensor::Exec::caller(nullptr, 1) : tensor::Exec::worker("compute", nullptr);
}

// Two replicas. Meanwhile they add something large on the communication Exec of each rank.
TEST_P(Stages, one_forward_one_backward_beside_long_reductions) {
  const auto [stages, kind, receives] = GetParam();
  const Topology topology({{Axis::pipe, stages}, {Axis::data, 2}});
  run_ranks(topology.world(), [&, stages = stages, kind = kind, receives = receives](int rank, ThreadsWorld& world) {
    const int stage = topology.coordinate(rank, Axis::pipe), replica = topology.coordinate(rank, Axis::data);
    const auto compute = exec_of(kind), communication = tensor::Exec::worker("communication", nullptr);
    const auto data =
        delayed(world.split(rank, "data", topology.peers(rank, {Axis::data})), pipeline::random_delays(100 + rank));
    Neighbours neighbours(world.factory(rank), topology, rank);
    std::vector<std::int64_t> sums(100000, replica + 1);
    for (int i = 0; i < 10; ++i)
      data->all_reduce(*communication, View::of(sums.data(), {100000}), i == 0 ? Reduction::sum : Reduction::max);
    pipeline::run(neighbours, *compute, {stages, stage, 3, 1, 1000, 100 * replica}, receives,
                  pipeline::random_delays(rank));
    communication->synchronize();
    EXPECT_EQ(sums, std::vector<std::int64_t>(100000, 3));
  });
}

// The last stage sends to the first, so each micro-batch passes every stage twice.
TEST(neighbours, chunks_go_round_the_ring) {
  for (const int stages : {2, 3, 4, 5}) {
    const Topology topology({{Axis::pipe, stages}});
    run_ranks(stages, [&](int rank, ThreadsWorld& world) {
      const auto compute = tensor::Exec::worker("compute", nullptr);
      Neighbours neighbours(world.factory(rank), topology, rank, {Ends::ring});
      pipeline::run(neighbours, *compute, {stages, rank, 4, 2, 100}, pipeline::Receives::ahead,
                    pipeline::random_delays(rank));
    });
  }
}

// Issues receives first. Nothing is sent before every rank has passed a barrier on its communication Exec.
TEST(neighbours, a_receive_that_waits_holds_up_no_collective) {
  const Topology topology({{Axis::pipe, 3}});
  run_ranks(3, [&](int rank, ThreadsWorld& world) {
    const auto communication = tensor::Exec::worker("communication", nullptr);
    const auto control = world.communicator(rank, "control");
    Neighbours neighbours(world.factory(rank), topology, rank);
    std::vector<std::int64_t> in(10), back(10), out(10, rank);
    tensor::Event arrived, returned;
    if (neighbours.has_previous()) arrived = neighbours.receive_activations(View::of(in.data(), {10}), {});
    if (neighbours.has_next()) returned = neighbours.receive_gradients(View::of(back.data(), {10}), {});
    control->barrier(*communication);
    communication->synchronize();
    EXPECT_TRUE(rank == 0 || !arrived.done());
    control->barrier(*communication);  // all ranks have looked
    communication->synchronize();
    if (neighbours.has_next()) neighbours.send_activations(View::of(out.data(), {10}), {}).wait();
    if (neighbours.has_previous()) neighbours.send_gradients(View::of(out.data(), {10}), {}).wait();
    arrived.wait();
    returned.wait();
    EXPECT_TRUE(rank == 0 || in == std::vector<std::int64_t>(10, rank - 1));
    EXPECT_TRUE(rank == 2 || back == std::vector<std::int64_t>(10, rank + 1));
  });
}

// Receives of gradients are issued before the activations that lead to them.
TEST(neighbours, no_queue_waits_for_another) {
  const Topology topology({{Axis::pipe, 3}});
  run_ranks(3, [&](int rank, ThreadsWorld& world) {
    Neighbours neighbours(world.factory(rank), topology, rank);
    std::vector<std::int64_t> there(10, 5), back(10, 0);
    const auto activations = View::of(there.data(), {10}), gradients = View::of(back.data(), {10});
    tensor::Event returned, arrived;
    if (neighbours.has_next()) returned = neighbours.receive_gradients(gradients, {});
    if (neighbours.has_previous()) arrived = neighbours.receive_activations(activations, {});
    if (neighbours.has_next()) neighbours.send_activations(activations, arrived);
    if (!neighbours.has_next()) neighbours.send_gradients(activations, arrived).wait();
    else if (neighbours.has_previous()) neighbours.send_gradients(gradients, returned).wait();
    returned.wait();
    EXPECT_TRUE(rank == 2 || back == std::vector<std::int64_t>(10, 5));
  });
}

// A message is sent only after its content is ready, and received only after its buffer is free.
TEST(neighbours, messages_begin_with_their_events) {
  const Topology topology({{Axis::pipe, 2}});
  run_ranks(2, [&](int rank, ThreadsWorld& world) {
    Neighbours neighbours(world.factory(rank), topology, rank);
    const auto compute = tensor::Exec::worker("compute", nullptr);
    std::promise<void> go;
    std::vector<std::int64_t> message(10, -1);
    compute->run([&, opened = go.get_future().share()] {
      opened.wait();
      message.assign(10, rank == 0 ? 8 : -2);
    });
    const auto done = rank == 0 ? neighbours.send_activations(View::of(message.data(), {10}), compute->record())
                                : neighbours.receive_activations(View::of(message.data(), {10}), compute->record());
    EXPECT_FALSE(done.done());
    go.set_value();
    done.wait();
    EXPECT_EQ(message, std::vector<std::int64_t>(10, 8));
  });
}

TEST(neighbours, ledgers_count_what_leaves_the_sender) {
  const Topology topology({{Axis::pipe, 3}});
  run_ranks(3, [&](int rank, ThreadsWorld& world) {
    Neighbours neighbours(world.factory(rank), topology, rank);
    const auto compute = tensor::Exec::caller(nullptr, 1);
    pipeline::run(neighbours, *compute, {3, rank, 3, 1, 50}, pipeline::Receives::when_needed, [] {});
    std::uint64_t activations = 0, gradients = 0, calls = 0;
    for (const auto* ledger : neighbours.ledgers())
      for (const auto& [name, traffic] : ledger->totals()) {
        (name == "activations" ? activations : gradients) += traffic.sent_bytes;
        EXPECT_TRUE(name == "activations" || name == "gradients") << name;
        calls += traffic.calls;
      }
    EXPECT_EQ(activations, rank < 2 ? 3u * 50 * 8 : 0);
    EXPECT_EQ(gradients, rank > 0 ? 3u * 50 * 8 : 0);
    EXPECT_EQ(calls, rank == 1 ? 12u : 6u);
    EXPECT_EQ(neighbours.ledgers().size(), rank == 1 ? 4u : 2u);
  });
}

// Stages with the same group in the watchdog share a boundary: they have the same number, and both have a ledger.
TEST(neighbours, both_sides_of_a_boundary_are_watched_as_one_group) {
  for (const auto ends : {Ends::open, Ends::ring})
    for (const int stages : {2, 3, 4, 5}) {
      const Topology topology({{Axis::pipe, stages}, {Axis::tensor, 2}});
      std::vector<std::vector<WatchedLedger>> watched(pipeline::z(topology.world()));
      run_ranks(topology.world(), [&](int rank, ThreadsWorld& world) {
        const Neighbours neighbours(world.factory(rank), topology, rank, {ends});
        watched[pipeline::z(rank)] = neighbours.watched();
      });
      int pairs = 0;
      for (std::size_t entry = 0; entry < watched[0].size(); ++entry) {
        const auto& group = watched[0][entry].group;
        EXPECT_EQ(group.name, "pipe");
        for (int r = 0; r < topology.world(); ++r) {
          const auto at = pipeline::z(r);
          ASSERT_EQ(watched[at].size(), watched[0].size());
          EXPECT_EQ(watched[at][entry].group.number_of, group.number_of);
          EXPECT_EQ(group.number_of[at] >= 0, watched[at][entry].ledger != nullptr);
          const auto members = std::count(group.number_of.begin(), group.number_of.end(), group.number_of[at]);
          EXPECT_TRUE(group.number_of[at] < 0 || members == 2) << members;
          pairs += group.number_of[at] == r;
        }
      }
      EXPECT_EQ(pairs, 2 * 2 * (ends == Ends::ring ? stages : stages - 1)) << stages;
      EXPECT_EQ(watched[0].size(), ends == Ends::ring && stages % 2 == 1 ? 6u
                                   : stages == 2 && ends == Ends::open   ? 2u
                                                                         : 4u);
    }
}

TEST(neighbours, ends_are_ends) {
  run_ranks(3, [&](int rank, ThreadsWorld& world) {
    const Neighbours line(world.factory(rank), Topology({{Axis::pipe, 3}}), rank);
    EXPECT_EQ(line.has_previous(), rank > 0);
    EXPECT_EQ(line.has_next(), rank < 2);
    const Neighbours ring(world.factory(rank), Topology({{Axis::pipe, 3}}), rank, {Ends::ring});
    EXPECT_TRUE(ring.has_previous() && ring.has_next());
    Neighbours none(world.factory(rank), Topology({{Axis::data, 3}}), rank, {Ends::ring});
    EXPECT_FALSE(none.has_previous() || none.has_next());
    EXPECT_TRUE(none.ledgers().empty() && none.watched().empty());
    EXPECT_THROW(none.send_activations({}, {}), std::logic_error);
  });
}

TEST(neighbours, messages_of_unequal_size_are_refused_at_both_ends) {
  std::atomic<int> refused{0};
  run_ranks(2, [&](int rank, ThreadsWorld& world) {
    Neighbours neighbours(world.factory(rank), Topology({{Axis::pipe, 2}}), rank);
    std::vector<std::int64_t> message(10);
    const auto event = rank == 0 ? neighbours.send_activations(View::of(message.data(), {10}), {})
                                 : neighbours.receive_activations(View::of(message.data(), {9}), {});
    try {
      event.wait();
    } catch (const base::CheckError& e) {
      EXPECT_NE(std::string(e.what()).find("group pipe activations 0 1: "), std::string::npos) << e.what();
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
}

TEST(neighbours, a_stage_that_fails_wakes_who_waits_for_it) {
  std::atomic<int> woken{0};
  EXPECT_THROW(
      run_ranks(
          3,
          [&](int rank, ThreadsWorld& world) {
            Neighbours neighbours(world.factory(rank), Topology({{Axis::pipe, 3}}), rank);
            if (rank == 1) throw base::InputError("a bad shard");
            std::vector<std::int64_t> message(10);
            const auto view = View::of(message.data(), {10});
            try {
              (rank == 0 ? neighbours.receive_gradients(view, {}) : neighbours.receive_activations(view, {})).wait();
            } catch (const base::PeerError&) {
              ++woken;
              throw;
            }
          }),
      base::InputError);
  EXPECT_EQ(woken, 2);
}

// The sentences of watchdogs over stages, with a threshold of 0.4 s. An alarm poisons the world, as an exit would.
class Watched {
 public:
  using Body = std::function<void(int rank, Neighbours& neighbours, std::shared_future<void> alarmed)>;
  Watched(int stages, const Body& body) : addresses_(pipeline::z(stages)) {
    const Topology topology({{Axis::pipe, stages}});
    try {
      run_ranks(stages, [&](int rank, ThreadsWorld& world) {
        const auto control = world.communicator(rank, "control");
        const auto caller = tensor::Exec::caller(nullptr, 1);
        Neighbours neighbours(world.factory(rank), topology, rank);
        std::promise<void> promise;
        const auto alarmed = promise.get_future().share();
        Watchdog dog({rank, stages, 0.4, 0.05,
                      [&](const std::string& sentence, Decided) {
                        {
                          const std::lock_guard lock(mutex_);
                          sentences.push_back(sentence);
                        }
                        world.poison();
                        promise.set_value();
                      }},
                     neighbours.watched());
        addresses_[pipeline::z(rank)] = dog.address();
        control->barrier(*caller);
        dog.start(addresses_);
        try {
          body(rank, neighbours, alarmed);
        } catch (const base::PeerError&) {
          alarmed.wait_for(10s);  // its own watchdog may be about to receive the verdict
          throw;
        }
        control->barrier(*caller);
      });
    } catch (const base::PeerError&) {
      // An alarm poisoned the world.
    }
  }
  std::vector<std::string> sentences;

 private:
  std::mutex mutex_;
  std::vector<std::string> addresses_;
};

TEST(neighbours, the_watchdog_names_the_stage_that_stalls) {
  const Watched told(4, [](int rank, Neighbours& neighbours, const std::shared_future<void>& alarmed) {
    const auto compute = tensor::Exec::caller(nullptr, 1);
    pipeline::run(neighbours, *compute, {4, rank, 6, 1, 10}, pipeline::Receives::ahead, [&, calls = 0]() mutable {
      if (rank == 2 && ++calls == 4) alarmed.wait_for(10s);
    });
  });
  ASSERT_EQ(told.sentences.size(), 4u);
  for (const auto& s : told.sentences)
    EXPECT_NE(s.find("in activations (call 3 of group pipe of ranks 2, 3, step 0): rank 3 is waiting; rank 2 on " +
                     base::host_name() + " is behind (computing after call 2, activations)"),
              std::string::npos)
        << s;
}

// Stage 1 stalls, and stage 2 waits for it. Stage 1 has issued a receive from stage 0, which computes and does not
// send. Nobody waits for that receive yet.
TEST(neighbours, the_watchdog_takes_no_receive_called_ahead_for_waiting) {
  const Watched told(3, [](int rank, Neighbours& neighbours, const std::shared_future<void>& alarmed) {
    std::vector<std::int64_t> in(10);
    tensor::Event arrived;
    if (rank > 0) arrived = neighbours.receive_activations(View::of(in.data(), {10}), {});
    if (rank < 2) alarmed.wait_for(10s);
    arrived.wait();
  });
  ASSERT_EQ(told.sentences.size(), 3u);
  EXPECT_NE(told.sentences[0].find("of ranks 1, 2, step 0): rank 2 is waiting; rank 1 on "), std::string::npos)
      << told.sentences[0];
}

TEST(neighbours, long_computing_behind_a_receive_called_ahead_is_no_hang) {
  const Watched told(2, [](int rank, Neighbours& neighbours, const std::shared_future<void>&) {
    std::vector<std::int64_t> message(10, 3);
    const auto view = View::of(message.data(), {10});
    tensor::Event done;
    if (rank == 1) done = neighbours.receive_activations(view, {});
    std::this_thread::sleep_for(1s);
    if (rank == 0) done = neighbours.send_activations(view, {});
    done.wait();
  });
  EXPECT_TRUE(told.sentences.empty()) << told.sentences[0];
}

}  // namespace
}  // namespace trainyard::comm
