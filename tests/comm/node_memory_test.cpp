// Tests the rendezvous of ranks of one machine. Threads of this process play the ranks, each with its own mapping of
// the shared segment.
#include "libtrain/comm/node_memory.h"
#include "libtrain/base/error.h"
#include "libtrain/comm/spin_wait.h"
#include "libtrain/tensor/arena.h"
#include "libtrain/tensor/shared_memory.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace trainyard::comm {
namespace {

class node_memory : public testing::Test {
 protected:
  void SetUp() override { tensor::begin_sharing(); }
  void TearDown() override { tensor::end_sharing(); }
};

void on_one_segment(int ranks, const std::function<void(NodeMemory& node, int rank)>& body,
                    const std::function<void()>& progress = {}) {
  const auto bytes = NodeMemory::block_bytes(ranks);
  void* segment = tensor::reserve_shared(bytes);
  ASSERT_NE(segment, nullptr);
  const auto place = tensor::shared_place(segment, bytes);
  std::vector<std::thread> team;
  for (int r = 0; r < ranks; ++r)
    team.emplace_back([&, r] {
      void* mine = tensor::map_writable(place);
      ASSERT_NE(mine, nullptr);
      NodeMemory node("data", r, ranks, mine, progress);
      body(node, r);
    });
  for (auto& t : team) t.join();
  EXPECT_TRUE(tensor::release_shared(segment, tensor::Pages::gone));
}

// In each round every rank reads what all wrote before the rendezvous. Once all have left, it overwrites its part.
TEST_F(node_memory, what_was_written_before_a_meeting_is_read_until_all_part) {
  for (const int ranks : {2, 3, 5})
    on_one_segment(ranks, [ranks](NodeMemory& node, int rank) {
      tensor::Arena arena(tensor::Category::gradients, 4096);
      const auto view = arena.allocate(base::DType::i64, {16});
      const auto exec = tensor::Exec::caller(nullptr, 1);
      for (std::int64_t round = 0; round < 300; ++round) {
        for (int i = 0; i < 16; ++i) view.ptr<std::int64_t>()[i] = round * 100 + rank;
        ASSERT_TRUE(node.rendezvous({"all_gather", 128}, view, *exec));
        for (int r = 0; r < ranks; ++r)
          for (int i = 0; i < 16; ++i)
            ASSERT_EQ(reinterpret_cast<const std::int64_t*>(node.of(r))[i], round * 100 + r) << "of rank " << r;
        node.leave(*exec);
      }
    });
}

TEST_F(node_memory, a_buffer_that_one_rank_hides_is_seen_by_nobody_and_an_empty_one_hides_nothing) {
  on_one_segment(3, [](NodeMemory& node, int rank) {
    const auto exec = tensor::Exec::caller(nullptr, 1);
    tensor::Arena arena(tensor::Category::parameters, 4096);
    const auto seen = arena.allocate(base::DType::f32, {4});
    float own[4] = {};
    for (int round = 0; round < 30; ++round) {
      EXPECT_FALSE(node.rendezvous({"all_gather", 16}, rank == round % 3 ? base::View::of(own, {4}) : seen, *exec));
      EXPECT_TRUE(node.rendezvous({"all_gather", 16}, rank == round % 3 ? base::View{} : seen, *exec));
      EXPECT_EQ(node.of(round % 3), nullptr);
      EXPECT_NE(node.of((round + 1) % 3), nullptr);
      node.leave(*exec);
    }
  });
}

TEST_F(node_memory, calls_that_differ_are_an_error_of_all) {
  std::atomic<int> refused = 0;
  on_one_segment(3, [&refused](NodeMemory& node, int rank) {
    const auto exec = tensor::Exec::caller(nullptr, 1);
    for (const NodeMemory::Call& other : {NodeMemory::Call{"all_reduce", 8}, {"barrier", 16}, {"barrier", 8, 2}}) {
      try {
        node.rendezvous(rank == 1 ? other : NodeMemory::Call{"barrier", 8}, {}, *exec);
      } catch (const base::CheckError&) {
        ++refused;
      }
    }
    node.leave(*exec);  // and all ranks are still there
  });
  EXPECT_EQ(refused, 9);
}

// The other ranks come only after the waiting rank has let its library work some times, and has slept in between.
TEST_F(node_memory, who_waits_lets_the_library_work) {
  std::atomic<int> worked = 0;
  on_one_segment(
      3,
      [&worked](NodeMemory& node, int rank) {
        const auto worker = tensor::Exec::worker("waits", nullptr);  // nobody waits for this Exec
        while (rank != 1 && worked < 3) std::this_thread::yield();
        node.rendezvous({"barrier", 0}, {}, *worker);
        node.leave(*worker);
      },
      [&worked] { ++worked; });
}

TEST_F(node_memory, regions_are_known_by_what_lies_in_them_until_they_are_released) {
  void* memory = tensor::reserve_shared(10000);
  ASSERT_NE(memory, nullptr);
  auto* bytes = static_cast<char*>(memory);
  const auto place = tensor::shared_place(bytes + 100, 9900);
  EXPECT_EQ(place.offset, 100);
  EXPECT_EQ(place.region_bytes, 10000);
  EXPECT_EQ(tensor::shared_place(bytes + 100, 9901).region, 0);
  EXPECT_EQ(tensor::shared_place(bytes - 1, 10).region, 0);
  bytes[100] = 7;
  EXPECT_EQ(*tensor::memory_of_peer(place), 7);
  EXPECT_GE(tensor::resident_bytes_of_peers(), 4096);
  EXPECT_TRUE(tensor::release_shared(memory, tensor::Pages::stay));
  EXPECT_FALSE(tensor::release_shared(memory, tensor::Pages::stay));
  EXPECT_EQ(tensor::shared_place(bytes + 100, 1).region, 0);

  void* next = tensor::reserve_shared(10000);  // it may have the address and the file of the memory before
  const auto other = tensor::shared_place(next, 10000);
  EXPECT_NE(other.region, place.region);
  EXPECT_EQ(other.released, place.released + 1);
  EXPECT_EQ(tensor::memory_of_peer(other)[100], 0) << "what is seen is not the region of before";
  EXPECT_TRUE(tensor::release_shared(next, tensor::Pages::gone));
}

TEST_F(node_memory, another_file_of_the_same_name_is_not_looked_at) {
  void* memory = tensor::reserve_shared(10000);
  auto place = tensor::shared_place(memory, 10000);
  ++place.inode;
  EXPECT_THROW(tensor::memory_of_peer(place), base::PeerError);
  EXPECT_EQ(tensor::map_writable(place), nullptr);
  EXPECT_TRUE(tensor::release_shared(memory, tensor::Pages::gone));
}

TEST_F(node_memory, a_process_that_has_ended_is_a_lost_peer) {
  void* memory = tensor::reserve_shared(10000);
  auto place = tensor::shared_place(memory, 10000);
  // A user other than root is refused until the parent knows that the process ended. Afterwards the memory is gone.
  const auto looker = fork();
  ASSERT_GE(looker, 0);
  if (looker == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    const auto is_lost = [&] {
      try {
        tensor::memory_of_peer(place);
      } catch (const base::PeerError&) {
        return true;
      } catch (...) {}
      return false;
    };
    place.process = fork();
    if (place.process == 0) _exit(0);
    siginfo_t ended;
    const bool at_once = waitid(P_PID, static_cast<id_t>(place.process), &ended, WEXITED | WNOWAIT) == 0 && is_lost();
    const bool later = waitpid(place.process, nullptr, 0) == place.process && is_lost();
    _exit(at_once && later ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(looker, &status, 0), looker);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(tensor::release_shared(memory, tensor::Pages::gone));
}

TEST_F(node_memory, pages_that_are_gone_are_gone_for_all) {
  for (const auto pages : {tensor::Pages::stay, tensor::Pages::gone}) {
    auto* memory = static_cast<char*>(tensor::reserve_shared(10000));
    memory[100] = 7;
    const char* seen = tensor::memory_of_peer(tensor::shared_place(memory, 10000));
    EXPECT_TRUE(tensor::release_shared(memory, pages));
    EXPECT_EQ(seen[100], pages == tensor::Pages::gone ? 0 : 7);
  }
}

TEST_F(node_memory, memory_that_others_see_is_cleared_too) {
  constexpr std::int64_t bytes = 9 << 20;
  tensor::Arena arena(tensor::Category::micro_batch_gradients, bytes);
  auto view = arena.allocate(base::DType::u8, {bytes});
  std::fill_n(view.ptr<unsigned char>(), bytes, 7);
  tensor::clear_untouched(view);
  EXPECT_EQ(std::count(view.ptr<unsigned char>(), view.ptr<unsigned char>() + bytes, 0), bytes);
}

TEST_F(node_memory, memory_is_private_where_it_cannot_or_need_not_be_shared) {
  float value = 0;
  EXPECT_EQ(tensor::shared_place(&value, 4).region, 0);
  const auto seen = [](tensor::Category c) {
    tensor::Arena arena(c, 1 << 16);
    return tensor::shared_place(arena.allocate_bytes(64), 64).region != 0;
  };
  EXPECT_TRUE(seen(tensor::Category::micro_batch_gradients));
  EXPECT_FALSE(seen(tensor::Category::activations));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 15, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_FALSE(seen(tensor::Category::micro_batch_gradients))
      << "a limit of file sizes is no reason to end by a signal";
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  tensor::end_sharing();
  EXPECT_FALSE(seen(tensor::Category::micro_batch_gradients));
}

TEST(spin_wait, naps_grow_with_the_wait_and_are_bounded) {
  using enum OtherThreads;
  for (const auto others : {wait_too, work})
    for (const double waited : {0.0, 1e-4, 1e-2, 1.0, 100.0})
      EXPECT_EQ(nap_after(waited, others, WaitPolicy::active), 0);
  for (const auto policy : {WaitPolicy::unsaid, WaitPolicy::passive})
    for (const auto others : {wait_too, work}) {
      EXPECT_EQ(nap_after(0, others, policy), 0) << "what is there at once costs no sleep";
      double least = 0;
      for (double waited = 1e-6; waited < 10; waited *= 1.5) {
        const double nap = nap_after(waited, others, policy);
        EXPECT_GE(nap, least);
        EXPECT_LE(nap, 1e-3);
        least = nap;
      }
      EXPECT_EQ(least, 1e-3);
    }
  EXPECT_GT(nap_after(2e-3, wait_too, WaitPolicy::passive), 0);
  EXPECT_EQ(nap_after(2e-3, wait_too, WaitPolicy::unsaid), 0) << "nobody of this process could use the core";
  EXPECT_GT(nap_after(1e-4, work, WaitPolicy::unsaid), 0);
}

}  // namespace
}  // namespace trainyard::comm
