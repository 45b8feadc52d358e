// Forks child processes, judges damaged files in them, and counts the results.
#include "tests/mutation/harness.h"

#include "libtrain/base/error.h"
#include "libtrain/base/last_resort.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mutation {

namespace {

namespace base = trainyard::base;

// What a child reports: plain memory that parent and child share, so that it survives the child's end.
struct Told {
  std::uint64_t seed;
  std::int64_t refused, accepted;
  int failed;  // the case `seed` failed, by `message`
  char message[2000];
};

enum class Outcome { refused, accepted };

// Throws std::runtime_error for a result that must not occur.
Outcome outcome_of(const Kind& kind, const Mutation& m) {
  try {
    const auto wrong = kind.judge(m.content);
    if (!wrong.empty()) throw std::runtime_error("accepted: " + wrong);
    return Outcome::accepted;
  } catch (const base::Error& e) {
    const auto code = static_cast<int>(e.code());
    if (code != 2 && code != 3) throw std::runtime_error(fmt::format("exit {}: {}", code, e.what()));
    if (std::strlen(e.what()) < 10 || std::strlen(e.what()) > 10'000)
      throw std::runtime_error(fmt::format("a message of {} bytes", std::strlen(e.what())));
    return Outcome::refused;
  }
}

void limit_memory() {
#ifndef TRAINYARD_SANITIZED
  const rlimit limit{rlim_t{4} << 30, rlim_t{4} << 30};  // a small file must not make a parser allocate more
  ::setrlimit(RLIMIT_AS, &limit);
#endif
}

// Runs cases from told.seed up to `end`, until one fails.
void work(const Kind& kind, std::uint64_t end, Told& told) {
  limit_memory();
  for (; told.seed < end; ++told.seed) {
    ::alarm(20);
    Random random(told.seed * 0x9E3779B97F4A7C15ull + std::hash<std::string>()(kind.name));
    Mutation m;
    try {
      m = kind.mutate(random);
      std::snprintf(told.message, sizeof told.message, "%s", m.what.c_str());
      const bool accepted = outcome_of(kind, m) == Outcome::accepted;
      ++(accepted ? told.accepted : told.refused);
      if (accepted && std::getenv("TRAINYARD_MUTATION_SHOW"))
        fmt::print("{}, seed {}: accepted: {}\n", kind.name, told.seed, m.what);
    } catch (const std::exception& e) {
      std::snprintf(told.message, sizeof told.message, "%s: %.1500s", m.what.substr(0, 200).c_str(), e.what());
      told.failed = 1;
      return;
    }
  }
}

std::string number_or(const char* variable, const std::string& otherwise) {
  const char* text = std::getenv(variable);
  return text ? text : otherwise;
}

}  // namespace

void run(const Kind& kind) {
  const auto seed_text = number_or("TRAINYARD_MUTATION_SEED", "1");
  const std::uint64_t first = seed_text == "random" ? std::random_device()() : std::stoull(seed_text),
                      cases = std::stoull(number_or("TRAINYARD_MUTATIONS", "300"));
  auto& told =
      *static_cast<Told*>(::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  told = {};
  told.seed = first;
  int failures = 0;
  while (told.seed < first + cases && failures < 10) {
    std::fflush(nullptr);
    const auto child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      work(kind, std::min(first + cases, told.seed + 500), told);
      std::fflush(stdout);
      std::_Exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const bool died = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (died || told.failed) {
      const auto how = !died ? std::string()
                       : WIFSIGNALED(status)
                           ? fmt::format("{}: ", WTERMSIG(status) == SIGALRM ? "hangs" : ::strsignal(WTERMSIG(status)))
                           : "ends its process: ";
      ADD_FAILURE() << kind.name << ", seed " << told.seed << ": " << how << told.message
                    << "\n  again: TRAINYARD_MUTATION_SEED=" << told.seed << " TRAINYARD_MUTATIONS=1";
      ++failures;
      told.failed = 0;
      ++told.seed;
    }
  }
  fmt::print("{}: seeds {} to {}, {} refused, {} accepted\n", kind.name, first, told.seed - 1, told.refused,
             told.accepted);
  if (cases >= 100 && failures == 0) {
    EXPECT_GT(told.refused, static_cast<std::int64_t>(cases / 20));
    EXPECT_GT(told.accepted, 0);
  }
  ::munmap(&told, sizeof told);
}

}  // namespace mutation
