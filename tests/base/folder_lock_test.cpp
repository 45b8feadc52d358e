// Tests that a folder has one writer, among threads, processes and stale locks, and that replacements are undone.
#include "libtrain/base/folder_lock.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace base = trainyard::base;
namespace fs = std::filesystem;
using trainyard::base::EnvironmentError;
using trainyard::base::UsageError;

namespace {

const trainyard::base::Owned anything{"a folder", [](const std::string&) { return std::string(); }};

std::string refusal(const std::string& folder) {
  try {
    base::FolderLock lock(folder, "wait");
    return "";
  } catch (const EnvironmentError& e) {
    EXPECT_EQ(e.hint(), "wait");
    return e.what();
  }
}

// Starts a process that holds the lock and sleeps. Returns once that process has the lock.
pid_t holder(const std::string& folder) {
  int ready[2];
  EXPECT_EQ(::pipe(ready), 0);
  const auto pid = ::fork();
  if (pid == 0) {
    ::alarm(30);
    ::setenv("SLURM_JOB_ID", "4711", 1);
    base::FolderLock lock(folder, "wait");
    [[maybe_unused]] const auto n = ::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char c = 0;
  ::close(ready[1]);
  EXPECT_EQ(::read(ready[0], &c, 1), 1);
  ::close(ready[0]);
  return pid;
}

}  // namespace

TEST(FolderLock, NamesItsHolderAndDiesWithIt) {
  Scratch s;
  const auto pid = holder(s.path);
  const auto message = refusal(s.path);
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  for (const auto& part : {s.path, "process " + std::to_string(pid), std::string(host), std::string("Slurm job 4711")})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  // Looking at the lock does not take it from its holder.
  EXPECT_NE(slurp(s.path + "/lock").find("4711"), std::string::npos);
  EXPECT_NE(refusal(s.path), "");
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_EQ(refusal(s.path), "");
  EXPECT_EQ(slurp(s.path + "/lock"), "") << "who has gone is still named";
}

TEST(FolderLock, IsLookedAtWithoutBeingTaken) {
  Scratch s;
  base::FolderLock::require_free(s.path, "wait");
  base::FolderLock::require_free(s.path + "/nowhere", "wait");
  EXPECT_TRUE(fs::is_empty(s.path));
  const auto pid = holder(s.path);
  try {
    base::FolderLock::require_free(s.path, "wait");
    ADD_FAILURE() << "free";
  } catch (const EnvironmentError& e) {
    EXPECT_NE(std::string(e.what()).find("process " + std::to_string(pid)), std::string::npos) << e.what();
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  base::FolderLock::require_free(s.path, "wait");
  { base::FolderLock lock(s.path, "wait"); }
  EXPECT_TRUE(fs::is_empty(s.path)) << "a lock that was given up is still there";
}

// A holder that ends normally never leaves its name behind, so nobody who looks at that moment takes it for killed.
TEST(FolderLock, WhoGoesWellIsNotTakenForKilled) {
  Scratch scratch;
  std::atomic<bool> over{false};
  std::thread holder([&] {
    while (!over) const base::FolderLock lock(scratch.path, "");
  });
  for (int i = 0; i < 20000; ++i) {
    const auto look = base::FolderLock::look(scratch.path);
    if (look.use == base::FolderLock::Use::nobody && !look.name.empty()) {
      ADD_FAILURE() << "look " << i << ": " << look.name;
      break;
    }
  }
  over = true;
  holder.join();
}

TEST(FolderLock, APipeUnderItsNameHoldsNobody) {
  Scratch s;
  ASSERT_EQ(::mkfifo((s.path + "/lock").c_str(), 0666), 0);
  ::alarm(30);
  EXPECT_THROW(base::FolderLock(s.path, "wait"), base::InputError);
  EXPECT_THROW(base::FolderLock::require_free(s.path, "wait"), base::InputError);
  EXPECT_FALSE(base::FolderLock::is_there(s.path));
  ::alarm(0);
}

// A full disk may have stored only a part of the holder's name. The next process may take the lock nevertheless.
TEST(FolderLock, APartOfANameIsNoOtherFile) {
  Scratch s;
  for (const char* text : {"", "p", "process", "process "}) {
    spit(s.path + "/lock", text);
    EXPECT_NO_THROW(base::FolderLock(s.path, "wait")) << text;
  }
  spit(s.path + "/lock", "pro domo");
  EXPECT_THROW(base::FolderLock(s.path, "wait"), base::InputError);
}

TEST(FolderLock, TwoInOneProcessExcludeEachOther) {
  Scratch s;
  {
    base::FolderLock lock(s.path, "wait");
    EXPECT_NE(refusal(s.path), "");
    // A lock that belongs to the process would be lost by closing the file anywhere in the process.
    ::close(::open((s.path + "/lock").c_str(), O_RDONLY));
    EXPECT_NE(refusal(s.path), "");
  }
  EXPECT_EQ(refusal(s.path), "");
}

TEST(FolderLock, APatientOneGetsItWhenTheHolderEnds) {
  Scratch s;
  const auto pid = holder(s.path);
  std::thread soon([pid] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  });
  EXPECT_NO_THROW(base::FolderLock(s.path, "wait", std::chrono::seconds(20)));
  soon.join();
}

TEST(FolderLock, AFolderUnderConstructionHasOneWriter) {
  Scratch s;
  const auto name = s.path + "/set";
  {
    base::AtomicFolder first(name, base::Existing::refuse, anything);
    spit(first.path() + "/x", "1");
    EXPECT_THROW(base::AtomicFolder(name, base::Existing::replace, anything), EnvironmentError);
    EXPECT_EQ(slurp(name + ".partial/x"), "1") << "the second writer removed what the first one wrote";
    first.publish();
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(name), {}), 1) << "the lock stays in what was published";
  // The process that publishes first wins. The late folder was opened with Existing::refuse.
  base::AtomicFolder late(s.path + "/other", base::Existing::refuse, anything);
  fs::create_directory(s.path + "/other");
  EXPECT_THROW(late.publish(), UsageError);
}

TEST(AtomicFolder, AnInterruptedReplacementIsUndone) {
  Scratch s;
  const auto name = s.path + "/set";
  const auto interrupt = [&] {
    fs::create_directory(name + ".replaced.partial");
    spit(name + ".replaced.partial/old", "1");
    fs::create_directory(name + ".partial");
  };
  interrupt();
  EXPECT_THROW(base::AtomicFolder(name, base::Existing::refuse, anything), UsageError);
  EXPECT_EQ(slurp(name + "/old"), "1");
  fs::remove_all(name);
  interrupt();
  { base::AtomicFolder unfinished(name, base::Existing::replace, anything); }
  EXPECT_EQ(slurp(name + "/old"), "1");
  fs::remove_all(name);
  interrupt();
  EXPECT_EQ(base::remove_stale_partials(
                s.path, [](std::string_view) { return true; }, anything),
            (std::vector<std::string>{"set.partial"}));
  EXPECT_EQ(slurp(name + "/old"), "1");
  EXPECT_EQ(std::distance(fs::directory_iterator(s.path), {}), 1);
}
