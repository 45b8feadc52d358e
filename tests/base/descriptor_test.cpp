// Tests that descriptors close themselves once, and that a text is written whole or the error is reported.
#include "libtrain/base/descriptor.h"

#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

using trainyard::base::Descriptor;
using trainyard::base::Interruptions;
using trainyard::base::write_all;

namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
int opened() { return ::open("/dev/null", O_WRONLY | O_CLOEXEC); }

TEST(Interruptions, EndAndAreOfSignalsAlone) {
  Interruptions few;
  errno = EIO;
  EXPECT_FALSE(few.again());
  errno = EINTR;
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(few.again());
  int more = 0;
  while (more < 1'000'000 && few.again()) ++more;
  EXPECT_LT(more, 1'000'000) << "a device that always says so holds the process";
}

TEST(Descriptor, ClosesWhatItHolds) {
  const int fd = opened();
  {
    const Descriptor file(fd);
    EXPECT_TRUE(file.is_open());
    EXPECT_EQ(file.get(), fd);
  }
  EXPECT_FALSE(is_open(fd));
  EXPECT_FALSE(Descriptor().is_open());
}

TEST(Descriptor, GivesUpWhatIsReleasedOrMoved) {
  const int fd = opened();
  {
    Descriptor first(fd);
    Descriptor second(std::move(first));
    EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(second.release(), fd);
    EXPECT_FALSE(second.is_open());
  }
  EXPECT_TRUE(is_open(fd));
  const int other = opened();
  Descriptor file(fd);
  file = Descriptor(other);
  EXPECT_FALSE(is_open(fd));
  EXPECT_EQ(file.get(), other);
}

TEST(Descriptor, TellsWhyItCouldNotBeClosed) {
  Descriptor file(opened());
  EXPECT_EQ(file.close(), 0);
  EXPECT_EQ(file.close(), 0);
  Descriptor stranger(1 << 20);  // no file is open under this number
  EXPECT_EQ(stranger.close(), EBADF);
  EXPECT_FALSE(stranger.is_open());
}

TEST(WriteAll, GoesOnAfterAPart) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Descriptor in(ends[0]), out(ends[1]);
  std::string text(1 << 20, 'x'), read;  // more than a pipe can hold
  text.back() = 'y';
  std::thread reader([&] {
    char buffer[1000];
    while (const auto n = ::read(in.get(), buffer, sizeof buffer)) read.append(buffer, static_cast<std::size_t>(n));
  });
  EXPECT_EQ(write_all(out.get(), text), 0);
  out.close();
  reader.join();
  EXPECT_EQ(read, text);
}

TEST(WriteAll, TellsTheReason) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(write_all(full.get(), "text"), ENOSPC);
  EXPECT_EQ(write_all(full.get(), ""), 0);
  EXPECT_EQ(write_all(-1, "text"), EBADF);
}

TEST(WriteAll, TellsTheReasonAfterAPart) {
  const trainyard::testing::Scratch scratch;
  const auto path = scratch.path + "/file";
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const int reason = write_all(file.get(), std::string(1500, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(reason, EFBIG);
  EXPECT_EQ(trainyard::testing::slurp(path).size(), 1000u);
}

}  // namespace
