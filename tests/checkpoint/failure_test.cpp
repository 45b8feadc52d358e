// Full disks and killed writers: exit 4, older checkpoints untouched, and never a checkpoint that only looks whole.
#include "tests/checkpoint/killed.h"
#include "tests/checkpoint/sample.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace sample;
using trainyard::base::DType;
using trainyard::base::Error;

namespace {

// Runs `body` in a child process whose files may grow to `limit` bytes. Returns its exit status.
template <class F> int in_child(rlim_t limit, F&& body) {
  const auto pid = ::fork();
  if (pid == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::alarm(20);
    const rlimit files{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &files);
    int code = 99;
    try {
      body();
      code = 0;
    } catch (const Error& e) {
      code = static_cast<int>(e.code());
    } catch (...) {}
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST(Failure, WithoutRoomThePartialGoesAndOlderOnesStay) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 5), 1);
  const auto size = fs::file_size(scratch.path + "/step-00000005/rank-00000.h5");
  // From no room for the HDF5 header to room for all but the last byte.
  for (std::uintmax_t limit : {std::uintmax_t{100}, std::uintmax_t{5000}, size / 2, size - 1}) {
    const auto code = in_child(limit, [&] {
      const auto s = state(gpt(), DType::f32, 10);
      checkpoint::write_rank(scratch.path, s, Rank(s, 0, 1).shards, {});
    });
    EXPECT_EQ(code, 4) << "limit " << limit;
    EXPECT_FALSE(fs::exists(scratch.path + "/step-00000010.partial")) << "limit " << limit;
    EXPECT_EQ(checkpoint::find_latest_whole(scratch.path, checkpoint::Verify::everything).step, 5);
  }
}

// Of the files that rank 0 adds, the joined index is the first.
TEST(Failure, WithoutRoomForTheIndexOrTheManifestThePartialGoesToo) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 5), 2);
  const auto s = state(gpt(), DType::f32, 10);
  for (rlim_t limit : {rlim_t{100}, rlim_t{4000}}) {
    for (int r = 0; r < 2; ++r) checkpoint::write_rank(scratch.path, s, Rank(s, r, 2).shards, {});
    EXPECT_EQ(in_child(limit,
                       [&] {
                         checkpoint::publish(scratch.path, s, plan::Topology({{plan::Axis::data, 2}}), 3);
                       }),
              4);
    EXPECT_FALSE(fs::exists(scratch.path + "/step-00000010.partial"));
  }
  EXPECT_EQ(checkpoint::list(scratch.path).size(), 1u);
}

TEST(Failure, APlaceThatCannotBeWrittenIsExit4) {
  Scratch scratch;
  spit(scratch.path + "/file", "in the way");
  EXPECT_EQ(in_child(RLIM_INFINITY,
                     [&] {
                       const auto s = state(gpt(), DType::f32, 10);
                       checkpoint::write_rank(scratch.path + "/file", s, Rank(s, 0, 1).shards, {});
                     }),
            4);
}

TEST(Failure, AKilledWriterLeavesOnlyAPartial) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 1), 2);
  const auto s = state(gpt(), DType::f32, 2);
  Rank first(s, 0, 2), second(s, 1, 2);
  const auto name = scratch.path + "/step-00000002", partial = name + ".partial";
  const auto kill_once = [&](const std::string& what, const std::function<bool()>& holds) {
    kill_when(holds, [&] {
      checkpoint::write_rank(scratch.path, s, first.shards, {});
      checkpoint::write_rank(scratch.path, s, second.shards, {});
      checkpoint::publish(scratch.path, s, plan::Topology({{plan::Axis::data, 2}}), 3);
    });
    // Whatever has the final name is whole, to the last byte.
    for (const auto& found : checkpoint::list(scratch.path)) {
      checkpoint::Reader reader(found.path);
      EXPECT_NO_THROW(reader.verify_all()) << what;
    }
    EXPECT_GE(checkpoint::list(scratch.path).size(), 1u);
    checkpoint::remove_stale_partials(scratch.path);
    for (const auto& entry : fs::directory_iterator(scratch.path))
      EXPECT_FALSE(entry.path().string().ends_with(".partial")) << what;
  };
  // The files that the writer makes one after the other. After the last of them the final name appears.
  for (const char* seen :
       {"", "rank-00000.h5", "rank-00000.json", "rank-00001.h5", "ranks.index", "manifest.json", "nothing"}) {
    kill_once(seen, [&] { return fs::exists(partial + "/" + seen) || fs::exists(name); });
    fs::remove_all(name);
  }
  // Kills by the clock, also while a checkpoint that has the name is being replaced.
  for (int i = 0; i < 40; ++i) kill_once(fmt::format("{} us", 400 * i), after(400e-6 * i));
}
