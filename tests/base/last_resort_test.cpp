// Tests failures that no catch can handle: no memory, a destructor that throws, a library that exits or crashes. Each
// runs in a process of its own.
#include "libtrain/base/last_resort.h"

#include "libtrain/base/error.h"
#include "libtrain/base/thread.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace trainyard::base {
namespace {

struct Ended {
  int code = -1, signal = 0;
  std::string said;
};

void limit_to(std::size_t more_bytes) {
  std::size_t pages = 0;
  auto* file = std::fopen("/proc/self/statm", "r");
  ASSERT_EQ(std::fscanf(file, "%zu", &pages), 1);
  std::fclose(file);
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * static_cast<std::size_t>(getpagesize()) + more_bytes;
  setrlimit(RLIMIT_AS, &limit);
}

// Takes all memory that is left, in pieces that get smaller.
void take_all() {
  for (std::size_t bytes = std::size_t{1} << 30; bytes >= 4096; bytes /= 2)
    while (mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {}
}

Ended ended(const std::function<void()>& work, std::size_t limit_bytes = 0) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const auto child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    if (limit_bytes > 0) limit_to(limit_bytes);
    prepare_last_resort();
    begin_main();
    work();
    _exit(99);
  }
  close(pipe_ends[1]);
  Ended e;
  char buffer[512];
  for (ssize_t n; (n = read(pipe_ends[0], buffer, sizeof buffer)) > 0;)
    e.said.append(buffer, static_cast<std::size_t>(n));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) e.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) e.signal = WTERMSIG(status);
  return e;
}

void expect_end(const Ended& e, int code, const std::string& words) {
  EXPECT_EQ(e.code, code) << "signal " << e.signal << ", " << e.said;
  EXPECT_NE(e.said.find(words), std::string::npos) << e.said;
}

struct Throws {
  explicit Throws(std::function<void()> w) : what(std::move(w)) {}
  ~Throws() { what(); }  // NOLINT: its exception cannot leave it
  std::function<void()> what;
};

TEST(last_resort, an_exception_that_cannot_be_caught_is_told) {
  expect_end(ended([] { const Throws t([] { throw EnvironmentError("the disk is gone", "look for it"); }); }), 4,
             ": the disk is gone\n  try: look for it\n");
  expect_end(ended([] { const Throws t([] { throw std::bad_alloc(); }); }), 4, ": out of memory\n");
  expect_end(ended([] { const Throws t([] { throw std::logic_error("a row too many"); }); }), 1,
             "unexpected: a row too many");
}

TEST(last_resort, a_library_that_exits_has_no_thread_or_memory) {
  expect_end(ended([] { std::exit(1); }), 4, "a library ended this process");
  expect_end(ended([] {
               settle_exit_code(3);
               std::exit(3);
             }),
             3, "");
}

#if !defined(TRAINYARD_SANITIZED)

TEST(last_resort, the_way_out_has_memory) {
  expect_end(ended(
                 [] {
                   take_all();
                   try {
                     for (;;) new std::string(100'000, 'x');
                   } catch (const std::bad_alloc&) {
                     std::vector<std::string> words;  // as destructors and messages allocate
                     for (int i = 0; i < 100; ++i) words.emplace_back(4096, 'y');
                     _exit(words.size() == 100 ? 7 : 8);
                   }
                 },
                 std::size_t{32} << 20),
             7, "");
}

TEST(last_resort, a_crash_without_memory_is_told) {
  for (const int number : {SIGSEGV, SIGABRT}) {
    const auto e = ended(
        [&] {
          take_all();
          raise(number);
        },
        std::size_t{32} << 20);
    expect_end(e, 4, "out of memory: a library crashed when it got none");
  }
  // The same on threads, which block all signals except those of a crash.
  expect_end(ended(
                 [] {
                   start_thread("crashes", [] {
                     take_all();
                     raise(SIGSEGV);
                   }).join();
                 },
                 std::size_t{64} << 20),
             4, "a library crashed when it got none");
}

TEST(last_resort, a_crash_with_memory_is_a_mistake) {
  EXPECT_EQ(ended([] { raise(SIGSEGV); }).signal, SIGSEGV);
  EXPECT_EQ(ended([] { raise(SIGSEGV); }, std::size_t{1} << 30).signal, SIGSEGV);
}

TEST(last_resort, what_is_decided_stays) {
  expect_end(ended(
                 [] {
                   settle_exit_code(6);
                   raise(SIGSEGV);
                 },
                 std::size_t{32} << 20),
             6, "");
}

TEST(last_resort, threads_are_asked_for_before_a_library_wants_them) {
  const auto without = [](int count) {
    return ended(
        [count] {
          try {
            require_threads(count);
          } catch (const EnvironmentError& e) {
            dprintf(STDERR_FILENO, "%s", e.what());
            _exit(4);
          }
          _exit(0);
        },
        std::size_t{64} << 20);
  };
  EXPECT_EQ(without(0).code, 0);
  EXPECT_EQ(without(2).code, 0);
  expect_end(without(100), 4, "of the 100 threads");
}

#endif

}  // namespace
}  // namespace trainyard::base
