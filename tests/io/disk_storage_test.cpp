// Tests DiskStorage with both engines: what is written is read back, in the order of the calls, and nothing is left.
#include "libtrain/io/disk_storage.h"

#include "libtrain/base/storage_stripes.h"
#include "tests/io/disk_storage_sample.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <random>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>

namespace {

using namespace disk_sample;
using trainyard::testing::refusal_of;

std::vector<base::StorageExtent> odd_extents() {
  std::vector<base::StorageExtent> extents;
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4095}, std::int64_t{4096}, block,
                                   block + 1, 12 * block + 17, 40 * block})
    extents.push_back({"extent of " + std::to_string(bytes), bytes});
  return extents;
}

struct Case {
  io::DiskEngine engine;
  std::vector<double> weights;
};
class Disk : public testing::TestWithParam<Case> {
 protected:
  Disk() : folders(GetParam().weights) {}
  io::DiskStorageOptions options(std::vector<base::StorageExtent> extents) const {
    return folders.options(std::move(extents), GetParam().engine);
  }
  Folders folders;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return (info.param.engine == io::DiskEngine::threads ? "threads_" : "automatic_") +
         std::to_string(info.param.weights.size());
}
INSTANTIATE_TEST_SUITE_P(Engines, Disk,
                         testing::Values(Case{io::DiskEngine::automatic, {1}}, Case{io::DiskEngine::threads, {1}},
                                         Case{io::DiskEngine::automatic, {3, 1, 0.5}},
                                         Case{io::DiskEngine::threads, {3, 1, 0.5}}),
                         name_of);

}  // namespace

TEST_P(Disk, ReadsBackWhatWasWrittenInAnyPieces) {
  io::DiskStorage storage(options(odd_extents()));
  base::StorageTotals expected;
  std::vector<Memory> written, read;
  for (const auto& extent : storage.extents()) written.emplace_back(extent.bytes), read.emplace_back(extent.bytes);
  for (std::size_t e = 0; e < written.size(); ++e) storage.use_memory(written[e].span());
  for (int e = 0; e < std::ssize(storage.extents()); ++e) {
    const auto bytes = storage.extents()[static_cast<std::size_t>(e)].bytes;
    auto* const from = written[static_cast<std::size_t>(e)].get();
    fill(from, e, 0, bytes);
    storage.write(e, 0, bytes, from);
    expected.written += base::storage_bytes(bytes);
  }
  for (int e = 0; e < std::ssize(storage.extents()); ++e) {
    const auto bytes = storage.extents()[static_cast<std::size_t>(e)].bytes;
    for (std::int64_t first = 0, blocks = 1; first < bytes; first += blocks * block, ++blocks) {
      const auto count = std::min(blocks * block, bytes - first);
      storage.read(e, first, count, read[static_cast<std::size_t>(e)].get() + first);
      expected.read += base::storage_bytes(count);
    }
  }
  storage.wait_all();
  for (int e = 0; e < std::ssize(storage.extents()); ++e) {
    const auto bytes = storage.extents()[static_cast<std::size_t>(e)].bytes;
    EXPECT_TRUE(holds(read[static_cast<std::size_t>(e)].get(), e, 0, bytes)) << e;
  }
  EXPECT_EQ(storage.totals(), expected);
}

TEST_P(Disk, HasTheBytesOfEachFolderThatTheStripesSay) {
  io::DiskStorage storage(options(odd_extents()));
  const auto stripes = base::StorageStripes(storage.extents(), folders.weights);
  EXPECT_EQ(storage.folder_bytes(), stripes.folder_bytes());
  const Memory from(40 * block);
  for (int e = 0; e < std::ssize(storage.extents()); ++e)
    storage.write(e, 0, storage.extents()[static_cast<std::size_t>(e)].bytes, from.get());
  storage.wait_all();
  for (std::size_t f = 0; f < folders.scratch.size(); ++f) {
    EXPECT_EQ(storage.folder_totals()[f].written, stripes.folder_bytes()[f]) << f;
    const auto files = open_files_in(folders.scratch[f].path);
    ASSERT_EQ(files.size(), 1u);
    struct stat info {};
    ASSERT_EQ(::fstat(files[0], &info), 0);
    EXPECT_EQ(info.st_size, stripes.folder_bytes()[f]);
    EXPECT_EQ(info.st_nlink, 0u);
  }
}

// The queue issues what it gets at once in reverse order: without an order of its own, a storage would show it.
TEST_P(Disk, OverlappingTransfersHappenInTheOrderOfCalls) {
  auto o = options({{"x", 6 * block}});
  Meddling::Ways ways;
  ways.requests = [](std::vector<io::DiskRequest>& requests) { std::reverse(requests.begin(), requests.end()); };
  o.around_queue = Meddling::with(ways);
  o.depth = 64;
  io::DiskStorage storage(std::move(o));
  std::vector<Memory> written, read;
  constexpr int rounds = 12;
  for (int i = 0; i < rounds; ++i) {
    written.emplace_back(6 * block), read.emplace_back(6 * block);
    fill(written.back().get(), i, 0, 6 * block);
  }
  for (int i = 0; i < rounds; ++i) {
    const auto first = i % 3 * block, count = 6 * block - 2 * first;
    storage.write(0, i == 0 ? 0 : first, i == 0 ? 6 * block : count, written[static_cast<std::size_t>(i)].get());
    storage.read(0, first, count, read[static_cast<std::size_t>(i)].get());
  }
  storage.wait_all();
  for (int i = 1; i < rounds; ++i)
    EXPECT_TRUE(holds(read[static_cast<std::size_t>(i)].get(), i, 0, 6 * block - 2 * (i % 3 * block))) << i;
}

TEST_P(Disk, TakesManyTransfersAtOnceAndWaitsInAnyOrder) {
  constexpr std::int64_t blocks = 200;
  io::DiskStorage storage(options({{"x", blocks * block}}));
  const Memory from(blocks * block), to(blocks * block);
  fill(from.get(), 7, 0, blocks * block);
  std::vector<Ticket> tickets;
  for (std::int64_t b = 0; b < blocks; ++b) storage.write(0, b * block, block, from.get() + b * block);
  for (std::int64_t b = 0; b < blocks; ++b) tickets.push_back(storage.read(0, b * block, block, to.get() + b * block));
  for (auto ticket = tickets.rbegin(); ticket != tickets.rend(); ++ticket) storage.wait(*ticket), storage.wait(*ticket);
  EXPECT_TRUE(holds(to.get(), 7, 0, blocks * block));
  EXPECT_EQ(storage.totals(), (base::StorageTotals{blocks * block, blocks * block}));
}

TEST_P(Disk, ServesSeveralCallersAtOnce) {
  constexpr int callers = 6;
  std::vector<base::StorageExtent> extents;
  for (int i = 0; i < callers; ++i) extents.push_back({"of caller " + std::to_string(i), 9 * block + 100 * i});
  io::DiskStorage storage(options(extents));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> team;
  for (int caller = 0; caller < callers; ++caller)
    team.emplace_back([&, caller] {
      const auto bytes = 9 * block + 100 * caller;
      const Memory from(bytes), to(bytes);
      std::minstd_rand random(static_cast<unsigned>(caller) + 1);
      for (int round = 0; round < 8; ++round) {
        fill(from.get(), caller * 100 + round, 0, bytes);
        const auto written = storage.write(caller, 0, bytes, from.get());
        const auto first = static_cast<std::int64_t>(random() % 9) * block;
        storage.wait(storage.read(caller, first, bytes - first, to.get()));
        storage.wait(written);
        wrong += !holds(to.get(), caller * 100 + round, first, bytes - first);
      }
    });
  for (auto& thread : team) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Disk, EndsWhatIsUnderWayWhenItIsDestroyed) {
  constexpr std::int64_t blocks = 256;
  const Memory from(blocks * block);
  std::atomic<int> submitted = 0, ended = 0;
  Meddling::Ways ways;
  ways.requests = [&](std::vector<io::DiskRequest>& requests) { submitted += static_cast<int>(requests.size()); };
  ways.result = [&](const io::DiskRequest&, io::DiskResult&) { ++ended; };
  for (int round = 0; round < 3; ++round) {
    auto o = options({{"x", blocks * block}});
    o.around_queue = Meddling::with(ways);
    io::DiskStorage storage(std::move(o));
    const auto first = storage.write(0, 0, block, from.get());
    for (std::int64_t b = 0; b < blocks; ++b) storage.write(0, b * block, block, from.get() + b * block);
    if (round == 1) storage.wait(first);
  }
  EXPECT_EQ(submitted, ended);
  EXPECT_GT(ended, 0);
}

TEST_P(Disk, NamesNoFileAndReadsAndWritesDirectly) {
  io::DiskStorage storage(options({{"x", 3 * block}, {"y", 13 * block}}));
  for (const auto& scratch : folders.scratch) {
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path));
    const auto files = open_files_in(scratch.path);
    ASSERT_EQ(files.size(), 1u);
    EXPECT_NE(::fcntl(files[0], F_GETFL) & O_DIRECT, 0);
    EXPECT_NE(::fcntl(files[0], F_GETFD) & FD_CLOEXEC, 0);
    struct stat info {};
    ASSERT_EQ(::fstat(files[0], &info), 0);
    EXPECT_GE(info.st_blocks * 512, info.st_size) << "space is reserved";
  }
}

TEST_P(Disk, NeedsTheNameOfItsFolderOnlyAtFirst) {
  auto own = folders.options({{"x", 12 * block + 5}}, GetParam().engine);
  io::DiskStorage storage(std::move(own));
  for (const auto& scratch : folders.scratch) std::filesystem::remove_all(scratch.path);
  EXPECT_TRUE(round_trip(storage));
}

TEST_P(Disk, LeavesNothingWhenItIsKilled) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const auto pid = ::fork();
  if (pid == 0) {
    io::DiskStorage storage(options({{"x", 12 * block + 5}}));
    const char done = round_trip(storage) ? 'y' : 'n';
    static_cast<void>(!::write(pipe[1], &done, 1));
    for (;;) ::pause();
  }
  char done = 0;
  EXPECT_EQ(::read(pipe[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  for (const auto& scratch : folders.scratch) EXPECT_TRUE(std::filesystem::is_empty(scratch.path));
  ::close(pipe[0]), ::close(pipe[1]);
}

TEST_P(Disk, RefusesWhatIsNoTransfer) {
  io::DiskStorage storage(options({{"x", 2 * block + 10}, {"nothing", 0}}));
  const Memory memory(3 * block);
  auto* const at = memory.get();
  const auto refused = [&](const std::function<void()>& call) { return refusal_of<std::logic_error>(call) != ""; };
  EXPECT_TRUE(refused([&] { storage.write(2, 0, block, at); }));
  EXPECT_TRUE(refused([&] { storage.write(-1, 0, block, at); }));
  EXPECT_TRUE(refused([&] { storage.write(0, 1, block - 1, at); }));
  EXPECT_TRUE(refused([&] { storage.write(0, 0, block - 1, at); }));
  EXPECT_TRUE(refused([&] { storage.write(0, 0, 2 * block + 11, at); }));
  EXPECT_TRUE(refused([&] { storage.write(0, -block, block, at); }));
  EXPECT_TRUE(refused([&] { storage.write(0, 0, -block, at); }));
  EXPECT_TRUE(refused([&] { storage.write(0, 0, block, at + 512); }));
  EXPECT_TRUE(refused([&] { storage.read(0, 0, block, at); })) << "never written";
  EXPECT_TRUE(refused([&] { storage.wait(1); }));
  EXPECT_TRUE(refused([&] { storage.wait(-1); }));
  storage.wait(storage.write(0, block, block + 10, at));
  EXPECT_TRUE(refused([&] { storage.read(0, 0, 2 * block + 10, at); })) << "its first block was never written";
  storage.wait(storage.read(0, 2 * block, 10, at));
  EXPECT_EQ(storage.write(1, 0, 0, at), 0);
  storage.wait(0);
  EXPECT_EQ(storage.totals(), (base::StorageTotals{4096, block + 4096}));
}

TEST_P(Disk, CountsTheTimeOfWaitsOnly) {
  io::DiskStorage storage(options({{"x", 12 * block + 5}}));
  EXPECT_EQ(storage.wait_seconds(), 0);
  storage.wait_all();
  EXPECT_EQ(storage.wait_seconds(), 0);
  // A transfer may have ended before the wait for it.
  for (int i = 0; i < 1000 && storage.wait_seconds() == 0; ++i) ASSERT_TRUE(round_trip(storage));
  EXPECT_GT(storage.wait_seconds(), 0);
}

TEST_P(Disk, RefusesOptionsOfNoStorage) {
  auto without_depth = options({{"x", 1}}), without_folder = options({{"x", 1}});
  without_depth.depth = 0;
  without_folder.folders.clear();
  EXPECT_NE(refusal_of([&] { io::DiskStorage storage(without_depth); }), "");
  EXPECT_NE(refusal_of([&] { io::DiskStorage storage(without_folder); }), "");
}

// What io_uring keeps registered, from what the system says of the ring.
TEST(DiskStorage, RegistersItsMemoryWithIoUring) {
  const Folders folders({1});
  io::DiskStorage storage(folders.options({{"x", 12 * block + 5}}));
  if (storage.engine() != "io_uring") GTEST_SKIP() << "this system has no io_uring";
  EXPECT_TRUE(round_trip(storage));
  std::string said;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) != "anon_inode:[io_uring]") continue;
    std::ifstream info("/proc/self/fdinfo/" + entry.path().filename().string());
    said.append(std::istreambuf_iterator<char>(info), {});
  }
  if (said.find("UserBufs") == std::string::npos) GTEST_SKIP() << "the kernel does not say";
  EXPECT_NE(said.find("UserFiles:\t1"), std::string::npos) << said;
  EXPECT_NE(said.find("UserBufs:\t1"), std::string::npos) << said;
}
