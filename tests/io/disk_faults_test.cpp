// Faults under DiskStorage: each is an error that names folder, extent, operation and place, and nothing hangs.
#include "libtrain/base/error.h"
#include "libtrain/io/disk_file.h"
#include "libtrain/io/disk_storage.h"
#include "libtrain/io/system_error.h"
#include "tests/io/disk_storage_sample.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mutex>
#include <set>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <thread>

namespace {

using namespace disk_sample;
using base::EnvironmentError;

constexpr std::int64_t fault_bytes = 12 * block + 5;

class DiskFaults : public testing::TestWithParam<io::DiskEngine> {
 protected:
  DiskFaults() : folders({1}) {}
  io::DiskStorageOptions options(const Meddling::Ways& ways) const {
    auto o = folders.options({{"before", 4 * block}, {"m of layers.03", fault_bytes}}, GetParam());
    o.around_queue = Meddling::with(ways);
    return o;
  }
  const std::string& folder() const { return folders.scratch[0].path; }
  Folders folders;
};
INSTANTIATE_TEST_SUITE_P(Engines, DiskFaults, testing::Values(io::DiskEngine::automatic, io::DiskEngine::threads),
                         [](const auto& info) {
                           return std::string(info.param == io::DiskEngine::threads ? "threads" : "automatic");
                         });

// The sentence of the EnvironmentError that the call throws; it has a hint and exit code 4.
std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const EnvironmentError& e) {
    EXPECT_EQ(e.code(), base::ExitCode::environment);
    EXPECT_NE(e.hint(), "");
    return e.what();
  }
  return "";
}

// Writes and reads extent 1, until that fails. Every later call says the same.
std::string failure_of(io::DiskStorage& storage) {
  const Memory from(fault_bytes), to(fault_bytes);
  fill(from.get(), 3, 0, fault_bytes);
  const auto sentence = failure_of([&] {
    storage.wait(storage.write(1, 0, fault_bytes, from.get()));
    storage.wait(storage.read(1, 0, fault_bytes, to.get()));
  });
  EXPECT_EQ(failure_of([&] { storage.wait_all(); }), sentence);
  EXPECT_EQ(failure_of([&] { storage.wait(1); }), sentence);
  EXPECT_EQ(failure_of([&] { storage.write(0, 0, block, from.get()); }), sentence);
  EXPECT_EQ(failure_of([&] { storage.read(0, 0, block, to.get()); }), sentence);
  EXPECT_EQ(failure_of([&] { storage.use_memory(to.span()); }), sentence);
  return sentence;
}

Meddling::Ways ends_with(int error_number, bool writes, std::int64_t offset) {
  Meddling::Ways ways;
  ways.result = [=](const io::DiskRequest& request, io::DiskResult& result) {
    if (request.writes == writes && request.offset == offset) result.result = -error_number;
  };
  return ways;
}

}  // namespace

TEST_P(DiskFaults, AFailedWriteNamesFolderExtentAndPlace) {
  io::DiskStorage storage(options(ends_with(EIO, true, 12 * block)));
  EXPECT_EQ(failure_of(storage), "cannot write 'm of layers.03' from byte 2097152 on to the unlinked file in " +
                                     folder() + ", at its byte 3145728: Input/output error");
}

TEST_P(DiskFaults, AFailedReadNamesFolderExtentAndPlace) {
  io::DiskStorage storage(options(ends_with(EIO, false, 16 * block)));
  EXPECT_EQ(failure_of(storage), "cannot read 'm of layers.03' from byte 3145728 on from the unlinked file in " +
                                     folder() + ", at its byte 4194304: Input/output error");
}

TEST_P(DiskFaults, AFullDiskIsSaidWithWhatHelps) {
  io::DiskStorage storage(options(ends_with(ENOSPC, true, 0)));
  const Memory from(block);
  try {
    storage.wait(storage.write(0, 0, block, from.get()));
    FAIL();
  } catch (const EnvironmentError& e) {
    EXPECT_NE(std::string(e.what()).find("No space left on device"), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find("free some space"), std::string::npos) << e.hint();
  }
}

// Of each request only the first half is issued, in whole direct blocks.
TEST_P(DiskFaults, ShortTransfersAreContinued) {
  Meddling::Ways ways;
  std::atomic<int> shortened = 0;
  ways.requests = [&](std::vector<io::DiskRequest>& requests) {
    for (auto& request : requests)
      if (request.bytes > 4096) ++shortened, request.bytes = request.bytes / 2 / 4096 * 4096;
  };
  io::DiskStorage storage(options(ways));
  const Memory from(fault_bytes), to(fault_bytes);
  fill(from.get(), 5, 0, fault_bytes);
  storage.wait(storage.write(1, 0, fault_bytes, from.get()));
  storage.wait(storage.read(1, 0, fault_bytes, to.get()));
  EXPECT_TRUE(holds(to.get(), 5, 0, fault_bytes));
  EXPECT_GT(shortened, 20);
  const auto moved = base::storage_bytes(fault_bytes);
  EXPECT_EQ(storage.totals(), (base::StorageTotals{moved, moved}));
}

TEST_P(DiskFaults, WhatIsCutOffIsNoEndOfTheWait) {
  Meddling::Ways ways;
  ways.result = [](const io::DiskRequest& request, io::DiskResult& result) {
    if (!request.writes) result.result = 0;
  };
  io::DiskStorage storage(options(ways));
  EXPECT_NE(failure_of(storage).find("the file ends there"), std::string::npos);
}

TEST_P(DiskFaults, InterruptedRequestsAreIssuedAgainButNotForEver) {
  for (const int number : {EINTR, EAGAIN}) {
    std::atomic<int> left = 8;
    Meddling::Ways ways;
    ways.result = [&](const io::DiskRequest&, io::DiskResult& result) {
      if (left-- > 0) result.result = -number;
    };
    auto o = options(ways);
    o.extents = {{"x", fault_bytes}};
    io::DiskStorage storage(std::move(o));
    EXPECT_TRUE(round_trip(storage));
    left = 1 << 30;
    const Memory to(block);
    const auto sentence = failure_of([&] { storage.wait(storage.read(0, 0, block, to.get())); });
    EXPECT_NE(sentence.find(", 1000 times"), std::string::npos) << sentence;
  }
}

TEST_P(DiskFaults, ABitThatTheDriveGivesBackOtherwiseIsFound) {
  Meddling::Ways ways;
  ways.result = [](const io::DiskRequest& request, io::DiskResult&) {
    if (!request.writes && request.offset == 8 * block) request.memory[2 * block + 77] ^= std::byte{16};
  };
  io::DiskStorage storage(options(ways));
  const auto sentence = failure_of(storage);
  EXPECT_EQ(sentence.substr(0, sentence.find(" (CRC32C")),
            "the unlinked file in " + folder() +
                " read back other bytes than were written: 'm of layers.03', block from byte 1572864 on");
  EXPECT_TRUE(sentence.ends_with(", at byte 2621440 of the file")) << sentence;
}

TEST_P(DiskFaults, ABitThatFlipsOnTheDriveIsFound) {
  io::DiskStorage storage(options({}));
  const Memory from(fault_bytes), to(fault_bytes);
  fill(from.get(), 3, 0, fault_bytes);
  storage.wait(storage.write(1, 0, fault_bytes, from.get()));
  const int file = open_files_in(folder()).at(0);
  const Memory sector(4096);
  const auto at = 16 * block;  // the last block of the extent, which has 5 bytes
  ASSERT_EQ(::pread(file, sector.get(), 4096, at), 4096);
  sector.get()[4] ^= std::byte{1};
  ASSERT_EQ(::pwrite(file, sector.get(), 4096, at), 4096);
  storage.wait(storage.read(1, 0, 12 * block, to.get()));
  const auto sentence = failure_of([&] { storage.wait(storage.read(1, 12 * block, 5, to.get())); });
  EXPECT_NE(sentence.find("'m of layers.03', block from byte 3145728 on"), std::string::npos) << sentence;
}

TEST_P(DiskFaults, AFailureEndsAllCallersWithOneSentence) {
  Meddling::Ways ways;
  std::atomic<int> requests = 0;
  ways.result = [&](const io::DiskRequest&, io::DiskResult& result) {
    if (++requests == 40) result.result = -EIO;
  };
  auto o = options(ways);
  o.extents = {{"x", 64 * block}};
  const Memory memory(64 * block);  // outlives the storage, which may use it after the failure
  io::DiskStorage storage(std::move(o));
  std::mutex mutex;
  std::set<std::string> sentences;
  std::vector<std::thread> team;
  for (int caller = 0; caller < 4; ++caller)
    team.emplace_back([&, caller] {
      const auto sentence = failure_of([&] {
        for (;;) {
          Ticket last = 0;
          for (std::int64_t b = 16 * caller; b < 16 * (caller + 1); ++b)
            last = storage.write(0, b * block, block, memory.get() + b * block);
          storage.wait(last);
          storage.wait_all();
        }
      });
      const std::lock_guard lock(mutex);
      sentences.insert(sentence);
    });
  for (auto& thread : team) thread.join();
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_NE(sentences.begin()->find("cannot write 'x'"), std::string::npos) << *sentences.begin();
}

TEST_P(DiskFaults, AFolderThatIsNotThereIsNamed) {
  auto o = folders.options({{"x", 5}}, GetParam());
  o.folders.push_back({folder() + "/absent", 1});
  const auto sentence = failure_of([&] { io::DiskStorage storage(o); });
  EXPECT_EQ(sentence, "cannot make a file in " + folder() + "/absent: No such file or directory");
}

TEST(DiskFile, HintsSpeakOfTheFoldersOfTheSetting) {
  for (const int number : {ENOSPC, EDQUOT, EROFS, ENOENT, ENOTDIR}) {
    EXPECT_NE(io::folder_hint(number, "offload-dir").find("name other folders with --offload-dir"), std::string::npos)
        << number;
    EXPECT_EQ(io::folder_hint(number, "").find("with"), std::string::npos) << number;
    EXPECT_EQ(io::folder_hint(number, "offload-dir").find("output"), std::string::npos) << number;
  }
  EXPECT_EQ(io::folder_hint(EACCES, "offload-dir"), base::hint_for(EACCES));
}

TEST_P(DiskFaults, AFileSizeLimitIsFoundBeforeTheFirstTransfer) {
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{1 << 20, 1 << 20};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              try {
                io::DiskStorage storage(folders.options({{"x", 2 << 20}}, GetParam()));
              } catch (const EnvironmentError& e) {
                return e.hint().find("ulimit -f") != std::string::npos ? 4 : 2;
              }
              return 0;
            }),
            4);
}

TEST_P(DiskFaults, AFullFileSystemIsFoundBeforeTheFirstTransfer) {
  const trainyard::testing::Scratch mount;
  if (::mount("test", mount.path.c_str(), "tmpfs", 0, "size=8m") != 0) GTEST_SKIP() << "only root can mount";
  auto o = folders.options({{"x", 8 << 20}}, GetParam());
  o.folders.push_back({mount.path, 20});
  const auto sentence = failure_of([&] { io::DiskStorage storage(o); });
  EXPECT_EQ(sentence, "");
  o.extents.push_back({"y", 8 << 20});
  const auto full = failure_of([&] { io::DiskStorage storage(o); });
  struct statvfs info {};
  EXPECT_EQ(::statvfs(mount.path.c_str(), &info), 0);
  EXPECT_EQ(info.f_bfree, info.f_blocks) << "something is left";
  EXPECT_TRUE(std::filesystem::is_empty(mount.path));
  EXPECT_EQ(::umount(mount.path.c_str()), 0);
  EXPECT_EQ(full, "cannot reserve 16.8 MB in " + mount.path + ": No space left on device; 8.39 MB are free");
}

namespace {

// From here on the system refuses io_uring with this error number, as many containers do.
bool refuse_io_uring(unsigned error_number) {
  const sock_filter instructions[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error_number),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, const_cast<sock_filter*>(instructions)};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

TEST(DiskStorage, UsesThreadsWhereIoUringIsRefused) {
  const Folders folders({1, 1});
  for (const unsigned number : {ENOSYS, EPERM, EACCES})
    EXPECT_EQ(in_child([&] {
                if (!refuse_io_uring(number)) return 77;
                io::DiskStorage storage(folders.options({{"x", fault_bytes}}));
                if (storage.engine() != "threads" || !round_trip(storage)) return 1;
                try {
                  io::DiskStorage other(folders.options({{"x", fault_bytes}}, io::DiskEngine::io_uring));
                } catch (const EnvironmentError& e) {
                  return std::string(e.what()).starts_with("io_uring cannot be used: ") && !e.hint().empty() ? 4 : 2;
                }
                return 3;
              }),
              4)
        << number;
}

TEST(DiskStorage, GoesOnWhereTheSystemRegistersNoMemory) {
  const Folders folders({1});
  std::filesystem::permissions(folders.scratch[0].path, std::filesystem::perms::all);
  testing::internal::CaptureStderr();
  const int code = in_child([&] {
    const rlimit limit{16384, 16384};
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
    if (::getuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 77;
    io::DiskStorage storage(folders.options({{"x", fault_bytes}}));
    if (storage.engine() != "io_uring") return 77;
    return round_trip(storage) ? 4 : 1;
  });
  const auto said = testing::internal::GetCapturedStderr();
  if (code == 77) GTEST_SKIP() << "this system has no io_uring";
  EXPECT_EQ(code, 4);
  EXPECT_NE(said.find("goes on without registered memory"), std::string::npos) << said;
}
