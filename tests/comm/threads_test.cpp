// Tests solo and threads: the contract on odd worlds, mismatched calls, failing ranks, sub-groups, overlap on a worker.
#include "libtrain/comm/threads.h"
#include "libtrain/comm/delayed.h"
#include "libtrain/comm/ordered.h"
#include "libtrain/comm/solo.h"
#include "tests/comm/contract.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace trainyard::comm {
namespace {

using base::View;

TEST(solo, contract) {
  auto solo = make_solo("data");
  auto caller = tensor::Exec::caller(nullptr, 2);
  contract::everything(*solo, *caller);
  auto worker = tensor::Exec::worker("exchange", nullptr);
  contract::everything(*solo, *worker);
}

class Threads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ranks, Threads, testing::Values(1, 2, 3, 4, 6, 7));

TEST_P(Threads, contract_on_the_caller) {
  run_ranks(GetParam(), [](int rank, ThreadsWorld& world) {
    auto comm = world.communicator(rank, "data");
    auto exec = tensor::Exec::caller(nullptr, 1);
    contract::everything(*comm, *exec);
  });
}

TEST_P(Threads, contract_on_a_worker) {
  run_ranks(GetParam(), [](int rank, ThreadsWorld& world) {
    auto comm = world.communicator(rank, "data");
    auto exec = tensor::Exec::worker("exchange", nullptr);
    contract::everything(*comm, *exec);
  });
}

TEST(threads, sub_groups_number_their_own_ranks) {
  run_ranks(6, [](int rank, ThreadsWorld& world) {
    auto row = world.split(rank, "row", rank < 4 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{4, 5});
    auto exec = tensor::Exec::caller(nullptr, 1);
    EXPECT_EQ(row->size(), rank < 4 ? 4 : 2);
    EXPECT_EQ(row->rank(), rank % 4);
    contract::everything(*row, *exec);
  });
}

TEST(threads, every_rank_hears_of_a_disagreement) {
  std::atomic<int> heard{0};
  const auto expect_check_error = [&heard](const auto& call) {
    try {
      call();
    } catch (const base::CheckError&) {
      ++heard;
    }
  };
  run_ranks(3, [&](int rank, ThreadsWorld& world) {
    auto comm = world.communicator(rank, "data");
    auto exec = tensor::Exec::caller(nullptr, 1);
    std::vector<float> data(8), more(24);
    std::vector<std::int64_t> counts{1, 1, 1}, odd{1, 1, rank == 2 ? 2 : 1};
    expect_check_error([&] { comm->all_reduce(*exec, View::of(data.data(), {rank == 1 ? 4 : 8}), Reduction::sum); });
    expect_check_error(
        [&] { comm->all_reduce(*exec, contract::view(data), rank == 1 ? Reduction::max : Reduction::sum); });
    expect_check_error([&] {
      rank == 2 ? comm->barrier(*exec) : comm->all_gather(*exec, contract::view(data), contract::view(more));
    });
    expect_check_error([&] { comm->all_to_all(*exec, contract::view(data), odd, contract::view(more), counts); });
    const Transfer lost{Transfer::Kind::send, 1, contract::view(data)};
    expect_check_error([&] { comm->exchange(*exec, rank == 0 ? std::span(&lost, 1) : std::span<const Transfer>{}); });
    contract::everything(*comm, *exec);  // the group still works
  });
  EXPECT_EQ(heard, 15);
}

TEST(threads, a_rank_that_throws_wakes_the_waiting) {
  std::atomic<int> woken{0};
  EXPECT_THROW(run_ranks(4,
                         [&](int rank, ThreadsWorld& world) {
                           auto comm = world.communicator(rank, "data");
                           auto exec = tensor::Exec::worker("exchange", nullptr);
                           if (rank == 2) throw base::InputError("a bad shard");
                           comm->barrier(*exec);
                           try {
                             exec->synchronize();
                           } catch (const base::PeerError&) {
                             ++woken;
                             throw;
                           }
                         }),
               base::InputError);
  EXPECT_EQ(woken, 3);
}

TEST(threads, a_rank_that_leaves_wakes_the_waiting) {
  EXPECT_THROW(run_ranks(3,
                         [](int rank, ThreadsWorld& world) {
                           auto comm = world.communicator(rank, "data");
                           auto exec = tensor::Exec::caller(nullptr, 1);
                           comm->barrier(*exec);
                           if (rank != 1) comm->barrier(*exec);
                         }),
               base::PeerError);
}

// When a rank fails, its buffers and their pages are freed. A peer that still read them would crash.
TEST(threads, a_failure_elsewhere_frees_no_buffer_that_is_read) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::atomic<int> calls{0};
    EXPECT_THROW(run_ranks(3,
                           [&](int rank, ThreadsWorld& world) {
                             if (rank == 2) {
                               while (calls < 2 + attempt % 4) std::this_thread::yield();
                               throw base::InputError("rank 2 fails", "");
                             }
                             auto comm = world.split(rank, "pair", {0, 1});
                             auto exec = tensor::Exec::caller(nullptr, 1);
                             std::vector<float> values(std::size_t{1} << 20, 1.0f);
                             for (;;) {
                               ++calls;
                               comm->all_reduce(*exec, View::of(values.data(), {1 << 20}), Reduction::max);
                             }
                           }),
                 base::InputError);
  }
}

// Ranks that are not in the group, counts that are not one for each rank, and sizes that do not fit one another are
// refused before anything is read.
template <class Make> void expect_refusals(int ranks, const Make& make) {
  const auto refused = [](const auto& call, const std::string& part) {
    try {
      call();
      ADD_FAILURE() << part;
    } catch (const std::logic_error& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  run_ranks(ranks, [&](int rank, ThreadsWorld& world) {
    const auto comm = make(rank, world);
    const auto exec = tensor::Exec::caller(nullptr, 1);
    std::vector<float> values(4, 1.0f);
    for (const int root : {5, -1})
      refused([&] { comm->broadcast(*exec, contract::view(values), root); },
              fmt::format("broadcast in group data: rank {} of {}", root, ranks));
    std::vector<float> short_of(3);
    const auto whole = contract::view(short_of), shard = View::of(values.data(), {2});
    refused([&] { comm->all_gather(*exec, shard, whole); },
            fmt::format("all_gather in group data: 12 bytes for {} shards of 8", ranks));
    refused([&] { comm->reduce_scatter(*exec, whole, shard); },
            fmt::format("reduce_scatter in group data: 12 bytes for {} shards of 8", ranks));
    const std::vector<Transfer> transfers{{Transfer::Kind::send, 7, contract::view(values)}};
    refused([&] { comm->exchange(*exec, transfers); }, fmt::format("exchange in group data: rank 7 of {}", ranks));
    const std::vector<std::int64_t> counts{};
    refused([&] { comm->all_to_all(*exec, contract::view(values), counts, contract::view(values), counts); },
            fmt::format("all_to_all in group data: 0 and 0 counts for {}", ranks));
    contract::everything(*comm, *exec);
  });
}

TEST(threads, a_rank_outside_the_group_is_refused) {
  expect_refusals(2, [](int rank, ThreadsWorld& world) { return world.communicator(rank, "data"); });
  expect_refusals(1, [](int, ThreadsWorld&) { return make_solo("data"); });
}

TEST(threads, a_delayed_communicator_holds_its_exec_and_not_the_caller) {
  run_ranks(2, [](int rank, ThreadsWorld& world) {
    std::atomic<bool> open{false};
    std::atomic<int> held{0};
    const auto caller = std::this_thread::get_id();
    auto comm = delayed(world.communicator(rank, "data"), [&] {
      EXPECT_NE(std::this_thread::get_id(), caller);
      ++held;
      while (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    auto exec = tensor::Exec::worker("exchange", nullptr);
    std::vector<std::int64_t> one{1};
    comm->all_reduce(*exec, contract::view(one), Reduction::sum);
    const auto event = exec->record();
    EXPECT_FALSE(event.done());  // and yet the caller is here
    EXPECT_EQ(comm->ledger().totals().count("all_reduce"), 0u);
    open = true;
    event.wait();
    EXPECT_EQ(held, 1);
    EXPECT_GT(exec->busy_seconds(), 0);
    EXPECT_EQ(one[0], 2);
    EXPECT_EQ(comm->ledger().totals()["all_reduce"].calls, 1u);
    exec->synchronize();
  });
}

TEST(ordered, plan_numbers) {
  static_assert(ordered_staging_bytes(100, 4, 1) == 0);
  static_assert(ordered_staging_bytes(100, 4, 3) == 1216);
  static_assert(ordered_sent_bytes(100, 4, 3) == 800);
}

}  // namespace
}  // namespace trainyard::comm
