// Tests gathers and ordered reductions between processes of one machine that read one another's arenas. They have the
// bits of a left-to-right sum, of messages and of the threads communicator, and make no copy on the way.
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/segments.h"
#include "libtrain/comm/threads.h"
#include "libtrain/tensor/arena.h"
#include "libtrain/tensor/shared_memory.h"
#include "tests/comm/contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

namespace trainyard::comm {
namespace {

MpiRuntime* runtime = nullptr;

using base::View;
using contract::contribution;
using contract::z;

constexpr float untouched = -77;

bool off() {
  const char* said = std::getenv("TRAINYARD_SHARED_MEMORY");
  return said != nullptr && std::string_view(said) == "off";
}

// A buffer of a rank, in memory that other ranks can read (`seen`) or cannot read (`hidden`).
struct Memory {
  Memory(std::int64_t elements, tensor::Category category)
      : arena(category, 4 * elements), view(arena.allocate(base::DType::f32, {elements})) {}
  float* data() const { return view.ptr<float>(); }
  tensor::Arena arena;
  View view;
};
constexpr auto seen = tensor::Category::micro_batch_gradients, hidden = tensor::Category::workspace;

void fill(const View& v, int turn) {
  for (std::int64_t i = 0; i < v.count(); ++i) v.ptr<float>()[i] = contribution(turn, i);
}

struct Case {
  std::int64_t shard, first, count;
  int contributors;
  std::vector<int> turns;
  bool in_place = false;  // the sum is this rank's own shard of the input
};

std::vector<Case> cases(int ranks) {
  std::vector<int> turns;
  for (int r = 0; r < ranks; ++r) turns.push_back((2 * ranks - r - 2) % ranks);
  std::vector<Case> all;
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{333}, std::int64_t{20011}})
    for (const int having : std::set<int>{1, (ranks + 1) / 2, ranks}) {
      all.push_back({n, 0, n, having, {}});
      all.push_back({n, 0, n, having, turns});
      if (n > 100) all.push_back({n, 32, n - 64, having, turns});
    }
  all.push_back({777, 0, 777, ranks, {}, true});
  return all;
}

// Reduces two rounds (one if in place). Returns the whole shard that holds the sum.
std::vector<float> reduced(Communicator& comm, tensor::Exec& exec, const Case& c, tensor::Category category,
                           bool staging_is_used) {
  const int n = comm.size(), turn = c.turns.empty() ? comm.rank() : c.turns[z(comm.rank())];
  const Memory in(c.shard * n, category), staging(c.shard * n, hidden), apart(c.shard, hidden);
  const auto sum = c.in_place ? View::of(in.data() + comm.rank() * c.shard, {c.shard}) : apart.view;
  std::fill_n(apart.data(), c.shard, untouched);
  std::fill_n(staging.data(), c.shard * n, untouched);
  for (int round = 0; round < (c.in_place ? 1 : 2); ++round) {
    fill(in.view, turn + round * n);
    const auto reduction_round = round == 0 ? base::ReductionRound::first : base::ReductionRound::next;
    const OrderedReduction reduction{.in = turn < c.contributors ? in.view : View{},
                                     .staging = staging.view,
                                     .sum = sum,
                                     .round = reduction_round,
                                     .contributors = c.contributors,
                                     .reduction_positions = c.turns};
    if (c.count == c.shard) ordered_reduce_scatter(comm, exec, reduction);
    else ordered_reduce_scatter_range(comm, exec, reduction, c.first, c.count);
    exec.synchronize();
  }
  EXPECT_EQ(std::any_of(staging.data(), staging.data() + c.shard * n, [](float v) { return v != untouched; }),
            staging_is_used);
  return {sum.ptr<float>(), sum.ptr<float>() + c.shard};
}

void expect_reductions(Communicator& comm, tensor::Exec& exec) {
  for (const auto& c : cases(comm.size())) {
    SCOPED_TRACE(fmt::format("shards of {}, [{}, {}), {} of {} contribute{}", c.shard, c.first, c.first + c.count,
                             c.contributors, comm.size(), c.turns.empty() ? "" : ", turns"));
    const int n = comm.size();
    std::vector<float> expected(z(c.shard), untouched);
    for (std::int64_t i = c.first; i < c.first + c.count; ++i) {
      volatile float sum = 0;
      for (int round = 0; round < (c.in_place ? 1 : 2); ++round)
        for (int turn = 0; turn < c.contributors; ++turn) {
          const float v = contribution(turn + round * n, comm.rank() * c.shard + i);
          sum = round == 0 && turn == 0 ? v : sum + v;
        }
      expected[z(i)] = sum;
    }
    if (c.in_place) expected.resize(z(c.shard));
    const auto bytes = [&](auto& v) { return std::string_view(reinterpret_cast<const char*>(v.data()), 4 * v.size()); };
    const bool alone = n == 1;
    const auto looked = reduced(comm, exec, c, seen, !alone && off());
    const auto sent = reduced(comm, exec, c, hidden, !alone);
    EXPECT_EQ(bytes(looked), bytes(expected));
    EXPECT_EQ(bytes(sent), bytes(expected));
  }
}

TEST(node_memory_mpi, reductions_on_the_caller) {
  const auto exec = tensor::Exec::caller(nullptr, 2);
  expect_reductions(*runtime->communicator("data"), *exec);
}

TEST(node_memory_mpi, reductions_on_a_worker_in_parts_of_the_world) {
  const auto exec = tensor::Exec::worker("communication", nullptr);
  std::vector<int> part;
  for (int r = runtime->rank() % 2; r < runtime->size(); r += 2) part.push_back(r);
  const auto half = runtime->split("parity", part), all = runtime->communicator("all");
  expect_reductions(*half, *exec);
  expect_reductions(*all, *exec);
}

// Repeats the whole world as threads inside each process.
TEST(node_memory_mpi, threads_have_the_same_bits) {
  const auto exec = tensor::Exec::caller(nullptr, 1);
  const auto comm = runtime->communicator("data");
  const Case c{5001, 0, 5001, comm->size(), {}};
  const auto mine = reduced(*comm, *exec, c, seen, comm->size() > 1 && off());
  std::vector<float> theirs;
  run_ranks(comm->size(), [&](int rank, ThreadsWorld& world) {
    const auto own = tensor::Exec::caller(nullptr, 1);
    auto found = reduced(*world.communicator(rank, "data"), *own, c, hidden, comm->size() > 1);
    if (rank == comm->rank()) theirs = std::move(found);
  });
  EXPECT_EQ(mine, theirs);
}

TEST(node_memory_mpi, gathers_whole_shards_and_ranges) {
  const auto exec = tensor::Exec::worker("communication", nullptr);
  const auto comm = runtime->communicator("data");
  const int n = comm->size();
  for (const auto category : {seen, hidden})
    for (const std::int64_t shard : {std::int64_t{1}, std::int64_t{333}, std::int64_t{20011}}) {
      const Memory apart(shard, category), out(shard * n, hidden), whole(shard * n, category);
      for (std::int64_t i = 0; i < shard; ++i)
        apart.data()[i] = whole.data()[comm->rank() * shard + i] = contribution(comm->rank(), i);
      comm->all_gather(*exec, apart.view, out.view);
      const auto own = View::of(whole.data() + comm->rank() * shard, {shard});
      const auto part = shard / 3;
      all_gather_range(*comm, *exec, own, whole.view, 0, part);
      all_gather_range(*comm, *exec, own, whole.view, part, shard - part);
      exec->synchronize();
      for (int r = 0; r < n; ++r)
        for (std::int64_t i = 0; i < shard; ++i) {
          ASSERT_EQ(out.data()[r * shard + i], contribution(r, i)) << "rank " << r << " element " << i;
          ASSERT_EQ(whole.data()[r * shard + i], contribution(r, i)) << "in place, rank " << r << " element " << i;
        }
    }
  const auto sent = comm->ledger().totals()["all_gather"];
  EXPECT_EQ(sent.sent_bytes, z(2 * 2 * (n - 1) * 4 * (1 + 333 + 20011)));
  EXPECT_EQ(sent.calls, z(2 * 3 * 3));
}

// The buffer of one rank alone is not shared: then no rank reads directly, and all send messages.
TEST(node_memory_mpi, one_hidden_buffer_is_enough_for_messages) {
  const auto exec = tensor::Exec::caller(nullptr, 1);
  const auto comm = runtime->communicator("data");
  const Case c{999, 0, 999, comm->size(), {}};
  const auto expected = reduced(*comm, *exec, c, hidden, comm->size() > 1);
  for (int who = 0; who < comm->size(); ++who)
    EXPECT_EQ(reduced(*comm, *exec, c, comm->rank() == who ? hidden : seen, comm->size() > 1), expected);
}

// The contract of every communicator has its buffers on the heap. Calls of both kinds follow one another.
TEST(node_memory_mpi, contract_beside_them) {
  const auto exec = tensor::Exec::worker("communication", nullptr);
  const auto comm = runtime->communicator("data");
  contract::everything(*comm, *exec);
  expect_reductions(*comm, *exec);
}

TEST(node_memory_mpi, arenas_that_are_gone_are_forgotten) {
  const auto comm = runtime->communicator("data");
  const auto exec = tensor::Exec::caller(nullptr, 1);
  for (int i = 0; i < 20; ++i) {
    const Memory own(300000, seen), all(300000 * comm->size(), hidden);
    std::fill_n(own.data(), 300000, static_cast<float>(100 * i + comm->rank()));
    comm->all_gather(*exec, own.view, all.view);
    for (int r = 0; r < comm->size(); ++r) ASSERT_EQ(all.data()[300000 * r + 299999], static_cast<float>(100 * i + r));
    if (i < 19) continue;
    EXPECT_LE(tensor::resident_bytes_of_peers(), (comm->size() - 1) * 1300000);
    if (!off()) {
      EXPECT_GE(tensor::resident_bytes_of_peers(), (comm->size() - 1) * 1200000);
    }
    comm->barrier(*exec);  // what one rank has released is gone for all
  }
  comm->barrier(*exec);
  EXPECT_LE(tensor::resident_bytes_of_peers(), (comm->size() - 1) * 4096);
}

}  // namespace
}  // namespace trainyard::comm

int main(int argc, char** argv) {
  trainyard::comm::MpiRuntime mpi;
  trainyard::comm::runtime = &mpi;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
