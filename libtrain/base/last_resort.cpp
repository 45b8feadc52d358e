// Handlers of new, terminate, exit and fatal signals. They write their sentences without an allocation.
#include "libtrain/base/last_resort.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <malloc.h>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace trainyard::base {

namespace {

constexpr int undecided = -1;
constexpr std::size_t held_back_bytes = std::size_t{2} << 20;

std::atomic<bool> prepared{false};
std::atomic<void*> held_back{nullptr};
std::atomic<int> settled{undecided};
std::atomic<bool> saying{false};
std::atomic<bool> memory_was_refused{false};  // at least once, to C++ code

void print(const char* text) {
  for (auto left = std::strlen(text); left > 0;) {
    const auto n = write(STDERR_FILENO, text, left);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) text += n, left -= size(n);
  }
}

// Writes the program's name. Before libraries have started, only the system knows it.
void report_name() {
  char command[1024] = "";  // its first word; /proc/self/comm would have 15 letters of the name
  if (*program_invocation_short_name != '\0') return print(program_invocation_short_name);
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const auto n = read(file, command, sizeof command - 1);
  close(file);
  if (n <= 0) return;
  command[n] = '\0';
  const char* folders = std::strrchr(command, '/');
  print(folders == nullptr ? command : folders + 1);
}

[[noreturn]] void end_with(ExitCode code, const char* what, const char* hint) {
  if (const int decided = settled; decided != undecided) _exit(decided);
  if (saying.exchange(true)) sleep(1);  // another thread is reporting the reason
  else {
    report_name(), print(": "), print(what), print("\n");
    if (*hint != '\0') print("  try: "), print(hint), print("\n");
  }
  _exit(static_cast<int>(code));
}

// The pages are never touched, so this takes address space that the process may have, and no memory of the machine.
void* mapped(std::size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

constexpr const char* more_memory =
    "fewer threads, smaller sizes, fewer ranks on a node, or more memory (ulimit -v, --mem of Slurm)";

void give_back() {
  if (void* all = held_back.exchange(nullptr); all != nullptr) munmap(all, held_back_bytes);
}

void without_memory() {
  memory_was_refused = true;
  give_back();
  throw std::bad_alloc();
}

[[noreturn]] void without_catch() {
  give_back();
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end_with(ExitCode::environment, "out of memory", more_memory);
  } catch (const std::exception& e) {
    try {
      const auto reported = error_text_of(e);
      end_with(reported.code, reported.message.c_str(), reported.hint.c_str());
    } catch (const std::exception&) {
      end_with(ExitCode::environment, "out of memory", more_memory);
    }
  } catch (...) {
    end_with(ExitCode::unexpected, "unexpected: an exception of no known kind", "please report this line");
  }
  // No memory was left even for an exception, or a library terminated the process on its way.
  if (memory_was_refused || memory_is_short()) end_with(ExitCode::environment, "out of memory", more_memory);
  end_with(ExitCode::unexpected, "unexpected: terminated without an exception", "please report this line");
}

#ifndef TRAINYARD_SANITIZED

extern "C" void on_fatal_signal(int number) {
  give_back();
  if (const int decided = settled; decided != undecided) _exit(decided);
  if (memory_is_short())
    end_with(ExitCode::environment, "out of memory: a library crashed when it got none", more_memory);
  std::signal(number, SIG_DFL);  // a defect: end as without this handler
  raise(number);
}

// Whether this process may have only a part of the memory. Elsewhere a crash is a defect, and libraries that print its
// place handle it.
bool memory_is_limited() {
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA})
    if (rlimit limit{}; getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return true;
  return false;
}

void handle_fatal_signals() {
  // Handlers need their own stack, because the main thread's stack may be what could not grow.
  static char stack_of_handlers[64 << 10];
  stack_t stack{};
  stack.ss_sp = stack_of_handlers;
  stack.ss_size = sizeof stack_of_handlers;
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_DFL) sigaction(number, &action, nullptr);
  }
}

// A stack that cannot grow causes a crash. Pages that are touched once stay.
[[gnu::noinline]] void grow_stack() {
  volatile char pages[256 << 10];
  for (std::size_t i = 0; i < sizeof pages; i += 4096) pages[i] = 0;
}

#endif

}  // namespace

bool memory_is_short(std::size_t bytes) {
  void* all = mapped(bytes);
  if (all == MAP_FAILED) return true;
  munmap(all, bytes);
  return false;
}

void prepare_last_resort() {
  if (prepared.exchange(true)) return;
  std::set_new_handler(without_memory);
  std::set_terminate(without_catch);
#ifndef TRAINYARD_SANITIZED
  if (memory_is_limited()) handle_fatal_signals(), grow_stack();
#endif
  if (void* all = mapped(held_back_bytes); all != MAP_FAILED) held_back = all;
}

void begin_main() {
#ifndef TRAINYARD_SANITIZED
  if (memory_is_short(std::size_t{4} << 30)) mallopt(M_ARENA_MAX, 1);
#endif
  static const auto process = getpid();  // processes that a library forks are excluded
  std::atexit([] {
    if (settled == undecided && getpid() == process)
      end_with(ExitCode::environment, "a library ended this process: it had no thread or no memory left", more_memory);
  });
}

void settle_exit_code(int exit_code) {
  int none = undecided;
  settled.compare_exchange_strong(none, exit_code);
}

}  // namespace trainyard::base
