// Tests that only regular files are read, without waiting and up to a limit.
#include "libtrain/base/read_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/system_error.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::spit;

namespace read_file_test {

std::string refusal(const std::string& path, std::int64_t largest = 1000) {
  ::alarm(10);  // a pipe without a writer would wait for ever
  try {
    base::read_file(path, largest);
    return "";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::input_refused) << e.what();
    EXPECT_FALSE(e.hint().empty()) << e.what();
    EXPECT_NE(std::string(e.what()).find(path), std::string::npos) << e.what();
    return e.what();
  }
}

void expect(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(ReadFile, AProcessThatCanHaveNoMoreFilesSaysNothingOfTheFile) {
  for (const int number : {EMFILE, ENFILE, ENOMEM})
    EXPECT_THROW(base::throw_cannot_read("open", "x", number), base::EnvironmentError) << number;
  EXPECT_THROW(base::throw_cannot_read("open", "x", EACCES), base::Unreadable);
  try {
    base::throw_cannot_read("open", "x", ENOENT);
    FAIL() << "nothing is wrong";
  } catch (const base::Unreadable& e) {
    FAIL() << "there, but not readable: " << e.what();
  } catch (const base::InputError&) {}
}

TEST(ReadFile, RegularFilesAndLinksToThem) {
  Scratch s;
  spit(s.path + "/a", "one");
  std::filesystem::create_symlink("a", s.path + "/link");
  EXPECT_EQ(base::read_file(s.path + "/a"), "one");
  EXPECT_EQ(base::read_file(s.path + "/link", 3), "one");
  spit(s.path + "/empty", "");
  EXPECT_EQ(base::read_file(s.path + "/empty"), "");
  EXPECT_FALSE(base::read_file("/proc/self/status").empty());  // its stated size is 0
}

TEST(ReadFile, PointersOfGitLfsAreNamed) {
  Scratch s;
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 499723\n";
  spit(s.path + "/pointer", pointer);
  expect(refusal(s.path + "/pointer"), "is a pointer of Git LFS, and not the file itself");
  spit(s.path + "/text", "a " + pointer);
  EXPECT_EQ(refusal(s.path + "/text"), "");
}

TEST(ReadFile, WhatIsNoFileIsRefusedAtOnce) {
  Scratch s;
  ASSERT_EQ(::mkfifo((s.path + "/pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", s.path + "/to-pipe");
  expect(refusal(s.path + "/pipe"), "it is a named pipe");
  expect(refusal(s.path + "/to-pipe"), "it is a named pipe");
  expect(refusal("/dev/zero"), "it is a device");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (s.path + "/s").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  expect(refusal(s.path + "/s"), "it is a socket");
  ::close(socket);
  expect(refusal(s.path), "Is a directory");
  expect(refusal(s.path + "/absent"), "No such file");
  std::filesystem::create_symlink("loop", s.path + "/loop");
  expect(refusal(s.path + "/loop"), "symbolic links");
}

// <(command) of a shell is a pipe too, but not a named pipe that may lack a writer.
TEST(ReadFile, APipeThatAShellMadeIsRead) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "abc", 3), 3);
  ::close(ends[1]);
  const auto path = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_EQ(base::read_file(path), "abc");
  ::close(ends[0]);
}

TEST(ReadFile, TheLimitHoldsBeforeAnythingIsAllocated) {
  Scratch s;
  spit(s.path + "/a", std::string(1001, 'x'));
  expect(refusal(s.path + "/a"), "larger than 1000 bytes");
  std::filesystem::resize_file(s.path + "/a", std::uintmax_t{1} << 40);  // sparse
  expect(refusal(s.path + "/a"), "larger than 1000 bytes");
}

}  // namespace read_file_test
