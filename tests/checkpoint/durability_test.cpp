// What must be on the disk before what: the order of writes, syncs and renames of a save. An interposed library
// (recorder.c) records it. Also what exists when a writer is killed after each of its renames, on a file system that
// cannot exchange two names.
#include "tests/checkpoint/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <sstream>

using namespace sample;
using trainyard::base::DType;

namespace {

struct Event {
  std::string what, a, b;
};

// Runs the disabled test `name` of this program under the recorder. Returns what the test did below `root`.
std::vector<Event> recorded(const std::string& name, const std::string& root, const std::string& settings,
                            int* status = nullptr) {
  const auto log = root + ".log";
  fs::remove(log);
  const auto self = fs::read_symlink("/proc/self/exe").string();
  const auto code = std::system(fmt::format("{} SAVE_FOLDER={} RECORD_ROOT={} RECORD_LOG={} LD_PRELOAD={} {} "
                                            "--gtest_also_run_disabled_tests --gtest_filter={} >/dev/null 2>&1",
                                            settings, root + "/run/checkpoints", root, log, RECORDER, self, name)
                                    .c_str());
  if (status != nullptr) *status = code;
  std::vector<Event> events;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    Event e;
    words >> e.what >> e.a >> e.b;
    events.push_back(e);
  }
  return events;
}

std::string above(const std::string& path) { return fs::path(path).parent_path().string(); }

// The index of the first event from `from` on that fits, or the number of events.
std::size_t first(const std::vector<Event>& events, std::size_t from, const std::function<bool(const Event&)>& fits) {
  while (from < events.size() && !fits(events[from])) ++from;
  return from;
}
bool syncs(const Event& e, const std::string& path) { return e.what == "sync" && e.a == path; }

// Whether the path is synced between the events `from` and `to`.
testing::AssertionResult synced_between(const std::vector<Event>& events, std::size_t from, std::size_t to,
                                        const std::string& path) {
  const auto at = first(events, from, [&](const Event& e) { return syncs(e, path); });
  if (at < to) return testing::AssertionSuccess();
  return testing::AssertionFailure() << path << " is not synced between event " << from << " ("
                                     << (from < events.size() ? events[from].what + " " + events[from].a : "")
                                     << ") and event " << to << " ("
                                     << (to < events.size() ? events[to].what + " " + events[to].a : "the end") << ")";
}

}  // namespace

// The child's part: two checkpoints of two ranks each. The second replaces the first, because one is kept.
TEST(Child, DISABLED_Saves) {
  for (int step : {5, 6}) save(std::getenv("SAVE_FOLDER"), state(gpt(), DType::bf16, step), 2, 1);
}
TEST(Child, DISABLED_SavesStepFive) { save(std::getenv("SAVE_FOLDER"), state(gpt(), DType::f32, 5), 1); }

TEST(Durability, EverythingIsOnTheDiskBeforeItGetsItsName) {
  Scratch scratch;
  const auto root = scratch.path + "/disk", folder = root + "/run/checkpoints";
  fs::create_directory(root);
  int status = -1;
  const auto events = recorded("Child.DISABLED_Saves", root, "", &status);
  ASSERT_EQ(status, 0);
  for (int step : {5, 6}) {
    const auto name = folder + "/" + checkpoint::step_name(step), partial = name + ".partial",
               manifest = partial + "/manifest.json.partial";
    const auto begins = first(events, 0, [&](const Event& e) { return e.a.starts_with(partial); });
    const auto named =
        first(events, 0, [&](const Event& e) { return e.what == "rename" && e.a == partial && e.b == name; });
    ASSERT_LT(named, events.size()) << "step " << step << " was never published";
    const auto described = first(events, begins, [&](const Event& e) { return e.a == manifest; });
    ASSERT_LT(described, named) << "the manifest is no atomic file";
    int files = 0;
    for (auto i = begins; i < named; ++i) {
      const auto& [what, a, b] = events[i];
      if (!a.starts_with(partial + "/")) continue;
      // Payloads, their descriptions and the view are synced before a manifest that vouches for them is written. The
      // manifest is synced before it gets its name.
      if (what == "write" && a != manifest) {
        ++files;
        EXPECT_TRUE(synced_between(events, i, described, a));
      }
      if (what == "write" && a == manifest) {
        EXPECT_TRUE(synced_between(
            events, i, first(events, i, [&](const Event& e) { return e.what == "rename" && e.a == manifest; }), a));
      }
      if (what == "rename" || what == "open" || what == "remove") {
        EXPECT_TRUE(synced_between(events, i, named, partial)) << what << " " << a;
      }
    }
    EXPECT_GT(files, 5) << "what HDF5 and the writers do is not seen";
    // The ranks' indices are joined to one file once all are there, and removed when a manifest vouches for that file.
    const auto renamed = [&](const std::string& file) {
      return first(events, begins, [&](const Event& e) { return e.what == "rename" && e.b == partial + "/" + file; });
    };
    const auto joined = renamed("ranks.index"), vouched = renamed("manifest.json");
    for (int r = 0; r < 2; ++r) {
      const auto index = checkpoint::rank_name(r) + ".index";
      const auto goes =
          first(events, begins, [&](const Event& e) { return e.what == "remove" && e.a == partial + "/" + index; });
      EXPECT_LT(renamed(index), joined);
      EXPECT_LT(vouched, goes);
      EXPECT_LT(goes, named);
    }
    EXPECT_LT(joined, described);
    EXPECT_TRUE(synced_between(events, joined, described, partial));
    // The new name is durable before anything that it replaces is removed, and before the checkpoint is announced.
    const auto next = first(events, named + 1, [&](const Event& e) { return e.what != "sync"; });
    EXPECT_LT(next, events.size());
    EXPECT_TRUE(synced_between(events, named, next, folder)) << "the new name of step " << step;
  }
  // New folders are entries of folders too.
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].what != "mkdir") continue;
    EXPECT_TRUE(synced_between(events, i, events.size(), above(events[i].a)));
  }
  const auto goes =
      first(events, 0, [&](const Event& e) { return e.what == "rename" && e.a == folder + "/step-00000005"; });
  EXPECT_LT(goes, events.size()) << "the oldest checkpoint stays, so nothing was seen of how it goes";
}

TEST(Durability, AWriterKilledBetweenRenamesLeavesAWholeCheckpoint) {
  int died = 0, between = 0;
  for (const char* exchange : {"", "RECORD_NO_EXCHANGE=1"})
    for (int renames = 1; renames <= 8; ++renames) {
      Scratch scratch;
      const auto root = scratch.path + "/disk", folder = root + "/run/checkpoints";
      save(folder, state(gpt(), DType::f32, 5), 1);
      int status = 0;
      recorded("Child.DISABLED_SavesStepFive", root, fmt::format("{} RECORD_DIE_AFTER={}", exchange, renames), &status);
      if (status != 0) ++died;
      if (!fs::exists(folder + "/step-00000005")) ++between;
      checkpoint::remove_stale_partials(folder);
      const auto found = checkpoint::find_latest_whole(folder, checkpoint::Verify::everything);
      EXPECT_EQ(found.step, 5) << "after rename " << renames << " " << exchange;
      for (const auto& entry : fs::directory_iterator(folder))
        EXPECT_FALSE(entry.path().string().ends_with(".partial")) << entry.path();
    }
  EXPECT_GT(died, 8);
  EXPECT_EQ(between, 1) << "the moment without a name was not met";
}
