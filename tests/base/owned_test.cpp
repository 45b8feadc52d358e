// Tests what may be replaced: only what a program recognizes as its own. No foreign file is ever removed.
#include "libtrain/base/owned.h"

#include "libtrain/base/error.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace base = trainyard::base;
namespace fs = std::filesystem;

namespace owned_test {

// Our folders hold a.h5 and sub/b.h5, and nothing else.
base::Owned ours(std::vector<std::string> precious = {}) {
  const auto foreign = [](const std::string& folder) {
    const auto unknown = base::first_unknown(folder, [](const std::string& name, base::EntryKind kind) {
      return kind == base::EntryKind::folder ? name == "sub" : name == "a.h5" || name == "sub/b.h5";
    });
    return unknown.empty() ? "" : "holds " + unknown;
  };
  return {"a sample", foreign, std::move(precious)};
}

std::string refusal(const std::string& path, const base::Owned& own) {
  try {
    base::require_own(path, own);
    return "";
  } catch (const base::UsageError& e) {
    EXPECT_FALSE(e.hint().empty());
    EXPECT_NE(std::string(e.what()).find(path), std::string::npos) << e.what();
    return e.what();
  }
}

class Own : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder + "/sub");
    spit(folder + "/a.h5", "a");
    spit(folder + "/sub/b.h5", "b");
  }
  void expect_refusal(const std::string& path, const base::Owned& own, const std::string& words) {
    const auto said = refusal(path, own);
    EXPECT_NE(said.find(words), std::string::npos) << "says: " << said;
  }
  Scratch scratch;
  const std::string folder = scratch.path + "/data";
};

TEST_F(Own, OursAndWhatIsNotThereMayGo) {
  EXPECT_EQ(refusal(folder, ours()), "");
  EXPECT_EQ(refusal(scratch.path + "/absent", ours()), "");
  fs::remove_all(folder + "/sub");
  EXPECT_EQ(refusal(folder, ours()), "");
}

TEST_F(Own, AThesisStays) {
  spit(folder + "/sub/thesis.tex", "years");
  expect_refusal(folder, ours(), "holds sub/thesis.tex");
  fs::rename(folder + "/sub/thesis.tex", folder + "/sub/a.h5");  // our name in another place
  expect_refusal(folder, ours(), "holds sub/a.h5");
  fs::remove(folder + "/sub/a.h5");
  fs::create_directories(folder + "/notes");
  expect_refusal(folder, ours(), "holds notes");
}

TEST_F(Own, NothingIsReplacedThroughOrOverALink) {
  fs::create_directory_symlink(folder, scratch.path + "/link");
  expect_refusal(scratch.path + "/link", ours(), "symbolic link");
  fs::create_symlink(scratch.path + "/nowhere", scratch.path + "/dangling");
  expect_refusal(scratch.path + "/dangling", ours(), "symbolic link");
  fs::remove(folder + "/a.h5");
  fs::create_symlink("/etc/passwd", folder + "/a.h5");
  expect_refusal(folder, ours(), "holds a.h5");
  fs::remove(folder + "/a.h5");
  ASSERT_EQ(::mkfifo((folder + "/a.h5").c_str(), 0600), 0);
  expect_refusal(folder, ours(), "holds a.h5");
}

TEST_F(Own, AnInputOrWhatHoldsOneStays) {
  expect_refusal(folder, ours({scratch.path + "/absent", folder + "/a.h5"}), "holds the input");
  expect_refusal(folder, ours({folder}), "is an input");
  expect_refusal(folder, ours({folder + "/sub/../sub/b.h5"}), "holds the input");
  fs::create_directory_symlink(folder, scratch.path + "/link");
  expect_refusal(folder, ours({scratch.path + "/link/sub/b.h5"}), "holds the input");  // the path goes through a link
  fs::create_symlink(scratch.path + "/text", folder + "/sub/b");
  spit(scratch.path + "/text", "x");
  expect_refusal(folder, ours({folder + "/sub/b"}), "holds the input");  // a link in the folder to a file outside it
  fs::remove(folder + "/sub/b");
  EXPECT_EQ(refusal(folder, ours({scratch.path + "/text", scratch.path + "/data2"})), "");
  spit(scratch.path + "/data2", "x");
  EXPECT_EQ(refusal(folder, ours({scratch.path + "/data2"})), "");  // its name only begins like the folder's
}

TEST_F(Own, TheWorkingDirectoryAndWhatIsAboveStay) {
  const auto before = fs::current_path();
  fs::current_path(folder + "/sub");
  const auto said = refusal(folder, ours()), here = refusal(".", ours()), above = refusal("..", ours());
  fs::current_path(before);
  for (const auto& text : {said, here, above}) EXPECT_NE(text.find("was started in"), std::string::npos) << text;
}

// Then nothing is known about a relative path, not even whether an input lies there.
TEST_F(Own, AWorkingDirectoryThatHasGoneIsSaid) {
  const auto before = fs::current_path();
  fs::create_directory(folder + "/gone");
  fs::current_path(folder + "/gone");
  fs::remove(folder + "/gone");
  EXPECT_THROW(trainyard::base::absolute_path("made"), trainyard::base::EnvironmentError);
  EXPECT_EQ(trainyard::base::absolute_path("/made"), "/made");
  fs::current_path(before);
  EXPECT_FALSE(trainyard::base::is_within("/a/b", ""));
  EXPECT_FALSE(trainyard::base::is_within("", "/a"));
  EXPECT_TRUE(trainyard::base::is_within("/a/b", "/a"));
  EXPECT_FALSE(trainyard::base::is_within("/ab", "/a"));
}

}  // namespace owned_test
