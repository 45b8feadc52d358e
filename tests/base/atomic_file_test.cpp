// Tests that files and folders are written whole or not at all, and that nothing of other owners is replaced.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/read_file.h"

#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace base = trainyard::base;
namespace fs = std::filesystem;
using trainyard::base::EnvironmentError;
using trainyard::base::InputError;
using trainyard::base::UsageError;

namespace {

// Owns any folder that holds only entries of one letter, "stale" and the lock.
trainyard::base::Owned letters() {
  return {"a folder of letters", [](const std::string& folder) {
            const auto unknown = trainyard::base::first_unknown(folder, [](const std::string& name, auto) {
              return name.size() == 1 || name == "stale" || name == base::lock_name;
            });
            return unknown.empty() ? "" : "holds " + unknown;
          }};
}

}  // namespace

TEST(AtomicFile, WritesReplacesAndReads) {
  Scratch s;
  base::write_file(s.path + "/a", "one");
  EXPECT_EQ(base::read_file(s.path + "/a"), "one");
  base::write_file(s.path + "/a", std::string(300000, 'x'));
  EXPECT_EQ(base::read_file(s.path + "/a"), std::string(300000, 'x'));
  EXPECT_EQ(base::file_size(s.path + "/a"), 300000);
  EXPECT_EQ(std::distance(fs::directory_iterator(s.path), {}), 1);
  EXPECT_THROW(base::read_file(s.path + "/a", 1000), InputError);
}

// What already lies under the temporary name is removed. Writing through a link would leave the folder, and opening a
// pipe would wait for a reader.
TEST(AtomicFile, WhatLiesUnderItsTemporaryNameIsReplaced) {
  Scratch s;
  spit(s.path + "/elsewhere", "theirs");
  fs::create_symlink(s.path + "/elsewhere", s.path + "/a.partial");
  ASSERT_EQ(::mkfifo((s.path + "/b.partial").c_str(), 0666), 0);
  ::alarm(30);
  for (const char* name : {"/a", "/b"}) {
    base::write_file(s.path + name, "ours");
    EXPECT_EQ(slurp(s.path + name), "ours");
  }
  ::alarm(0);
  EXPECT_EQ(slurp(s.path + "/elsewhere"), "theirs");
  EXPECT_THROW(base::write_file(s.path + "/none/c", "x"), EnvironmentError);
}

TEST(AtomicFile, ATreeGoesWithItsLinksAndNotWithWhatTheyLeadTo) {
  Scratch s;
  fs::create_directories(s.path + "/tree/in/ner");
  fs::create_directories(s.path + "/kept");
  spit(s.path + "/kept/file", "theirs");
  spit(s.path + "/tree/in/file", "ours");
  fs::create_directory_symlink(s.path + "/kept", s.path + "/tree/in/link");
  fs::create_directory_symlink(s.path + "/nothing", s.path + "/tree/dangling");
  base::remove_tree(s.path + "/tree/");
  EXPECT_FALSE(fs::exists(fs::symlink_status(s.path + "/tree")));
  EXPECT_EQ(slurp(s.path + "/kept/file"), "theirs");
  base::remove_tree(s.path + "/tree");  // the tree is gone already
  fs::create_directory_symlink(s.path + "/kept", s.path + "/link");
  base::remove_tree(s.path + "/link");
  EXPECT_EQ(slurp(s.path + "/kept/file"), "theirs");
}

// Whoever finds the folder before its removal has ended can tell by one of its files what it was.
TEST(AtomicFile, OneFileOfATreeGoesLast) {
  Scratch s;
  const auto tree = s.path + "/tree", removed = base::removed_name(tree);
  EXPECT_EQ(removed, tree + ".removed.partial");
  for (int folder = 0; folder < 40; ++folder) {
    const auto inner = fmt::format("{}/{:02}", tree, folder);
    fs::create_directories(inner);
    for (int file = 0; file < 50; ++file) spit(fmt::format("{}/{}", inner, file), "x");
  }
  spit(tree + "/index", "x");
  const auto remover = ::fork();
  if (remover == 0) {
    base::remove_tree(tree, nullptr, "index");
    ::_exit(0);
  }
  int looked = 0;
  const auto is_running = [&] { return ::waitpid(remover, nullptr, WNOHANG) == 0; };
  while (is_running()) {
    const bool is_there = fs::exists(tree + "/index") || fs::exists(removed + "/index");
    int others = 0;
    for (int folder = 0; folder < 40; ++folder) others += fs::exists(fmt::format("{}/{:02}", removed, folder)) ? 1 : 0;
    ASSERT_TRUE(is_there || others == 0) << others;
    ++looked;
  }
  EXPECT_GT(looked, 0);
  EXPECT_FALSE(fs::exists(tree));
  EXPECT_FALSE(fs::exists(removed));
}

TEST(AtomicFile, OneOfManyWritersOfANewNameWins) {
  Scratch s;
  const auto name = s.path + "/plan";
  std::vector<pid_t> writers;
  for (char who = 'a'; who < 'a' + 8; ++who) {
    const auto pid = ::fork();
    if (pid > 0) {
      writers.push_back(pid);
      continue;
    }
    try {
      base::write_file(name, std::string(1 << 16, who), base::Existing::refuse);
      ::_exit(0);
    } catch (const UsageError&) {
      ::_exit(2);
    } catch (...) {
      ::_exit(1);
    }
  }
  std::map<int, int> ends;
  for (const auto pid : writers) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ++ends[WEXITSTATUS(status)];
  }
  EXPECT_EQ(ends, (std::map<int, int>{{0, 1}, {2, 7}}));
  const auto content = slurp(name);
  EXPECT_EQ(content, std::string(1 << 16, content.at(0)));
  EXPECT_THROW(base::write_file(name, "late", base::Existing::refuse), UsageError);
  EXPECT_EQ(slurp(name), content);
  base::write_file(name, "new", base::Existing::replace);
  EXPECT_EQ(slurp(name), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(s.path), {}), 1);  // no temporary file is left
}

TEST(AtomicFile, ErrorsNameThePath) {
  Scratch s;
  try {
    base::read_file(s.path + "/absent");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("/absent"), std::string::npos);
  }
  EXPECT_THROW(base::write_file(s.path + "/no/such/folder", "x"), EnvironmentError);
  EXPECT_THROW(base::read_file(s.path), InputError);
  EXPECT_EQ(base::file_size(s.path), -1);
  EXPECT_EQ(base::file_size(s.path + "/absent"), -1);
}

TEST(AtomicFile, AFullDiskLeavesTheOldContent) {
  Scratch s;
  base::write_file(s.path + "/a", "old");
  const auto pid = ::fork();
  if (pid == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{5000, 5000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      base::write_file(s.path + "/a", std::string(20000, 'x'));
    } catch (const EnvironmentError& e) {
      ::_exit(e.hint().empty() ? 2 : 4);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 4);
  EXPECT_EQ(slurp(s.path + "/a"), "old");
  EXPECT_FALSE(fs::exists(s.path + "/a.partial"));
}

TEST(AtomicFolder, IsPublishedOrRemoved) {
  Scratch s;
  const auto name = s.path + "/deep/set";
  {
    base::AtomicFolder folder(name + "/", base::Existing::refuse, letters());
    spit(folder.path() + "/x", "1");
    EXPECT_FALSE(fs::exists(name));
  }
  EXPECT_FALSE(fs::exists(name + ".partial"));
  fs::create_directories(name + ".partial");
  spit(name + ".partial/stale", "1");
  {
    base::AtomicFolder folder(name, base::Existing::refuse, letters());
    spit(folder.path() + "/x", "1");
    folder.publish();
  }
  EXPECT_TRUE(fs::exists(name + "/x"));
  EXPECT_FALSE(fs::exists(name + "/stale"));
  EXPECT_THROW(base::AtomicFolder(name, base::Existing::refuse, letters()), UsageError);
  {
    base::AtomicFolder folder(name, base::Existing::replace, letters());
    spit(folder.path() + "/y", "2");
    EXPECT_TRUE(fs::exists(name + "/x"));
    folder.publish();
  }
  EXPECT_TRUE(fs::exists(name + "/y"));
  EXPECT_FALSE(fs::exists(name + "/x"));
  EXPECT_EQ(std::distance(fs::directory_iterator(s.path + "/deep"), {}), 1);
}

TEST(AtomicFolder, TouchesOnlyItsOwn) {
  Scratch s;
  const auto name = s.path + "/set";
  for (const auto* place : {"/set", "/set.partial", "/set.replaced.partial"}) {
    const auto folder = s.path + place;
    fs::create_directory(folder);
    spit(folder + "/thesis.tex", "years");
    EXPECT_THROW(base::AtomicFolder(name, base::Existing::replace, letters()), UsageError) << place;
    EXPECT_EQ(slurp(folder + "/thesis.tex"), "years") << place;
    EXPECT_EQ(std::distance(fs::directory_iterator(s.path), {}), 1) << place;
    fs::remove_all(folder);
    spit(folder, "a file");
    fs::rename(folder, s.path + "/x");
    fs::create_symlink(s.path + "/x", folder);
    EXPECT_THROW(base::AtomicFolder(name, base::Existing::replace, letters()), UsageError) << place;
    EXPECT_EQ(slurp(s.path + "/x"), "a file");
    fs::remove(folder);
    fs::remove(s.path + "/x");
  }
}

// What appeared under the name since the constructor is kept, and so is the new work.
TEST(AtomicFolder, WhatAppearedMeanwhileStays) {
  for (const auto existing : {base::Existing::refuse, base::Existing::replace}) {
    Scratch s;
    const auto name = s.path + "/set";
    {
      base::AtomicFolder folder(name, existing, letters());
      spit(folder.path() + "/x", "work");
      fs::create_directory(name);
      spit(name + "/thesis.tex", "years");
      EXPECT_THROW(folder.publish(), UsageError);
    }
    EXPECT_EQ(slurp(name + "/thesis.tex"), "years");
    EXPECT_EQ(slurp(name + ".partial/x"), "work");
  }
}

TEST(AtomicFolder, StalePartialsGo) {
  Scratch s;
  const auto any = [](std::string_view) { return true; };
  const trainyard::base::Owned anything{"a folder", [](const std::string&) { return std::string(); }};
  fs::create_directories(s.path + "/a.partial/b");
  spit(s.path + "/c.partial", "x");
  spit(s.path + "/d.partially", "x");
  EXPECT_EQ(base::remove_stale_partials(s.path, any, anything), (std::vector<std::string>{"a.partial", "c.partial"}));
  EXPECT_TRUE(fs::exists(s.path + "/d.partially"));
  EXPECT_TRUE(base::remove_stale_partials(s.path + "/absent", any, anything).empty());
  base::remove_tree(s.path + "/d.partially");
  base::remove_tree(s.path + "/d.partially");
  EXPECT_TRUE(fs::is_empty(s.path));
}

TEST(AtomicFolder, StalePartialsOfOthersStay) {
  Scratch s;
  for (const char* name : {"a", "b", "thesis"}) fs::create_directory(s.path + "/" + name + ".partial");
  spit(s.path + "/thesis.partial/thesis.tex", "years");
  const auto short_name = [](std::string_view name) { return name.size() == 9; };
  spit(s.path + "/b.partial/thesis.tex", "years");
  EXPECT_THROW(base::remove_stale_partials(s.path, short_name, letters()), UsageError);  // b is not ours
  EXPECT_TRUE(fs::exists(s.path + "/a.partial")) << "something was removed before everything was looked at";
  fs::remove_all(s.path + "/b.partial");
  EXPECT_EQ(base::remove_stale_partials(s.path, short_name, letters()), (std::vector<std::string>{"a.partial"}));
  EXPECT_EQ(slurp(s.path + "/thesis.partial/thesis.tex"), "years");
}
