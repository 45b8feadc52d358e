// Last resort: how a process ends where no catch can end it, and the memory that is held back for that.
#pragma once

#include <cstddef>

// Sanitizers have signal handlers of their own, which must be the first ones.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRAINYARD_SANITIZED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define TRAINYARD_SANITIZED
#endif
#endif

namespace trainyard::base {

// For programs. The first call installs the handlers below; later calls do nothing. No call allocates.
// - The first `new` that finds no memory releases the held-back memory and throws, so that the error path has memory.
// - An exception that cannot be caught, for example from a destructor, is reported in a sentence and ends the process
//   with its exit code.
// - A crash or an abort where no memory is left ends with exit code 4 and a sentence. It happens in libraries that do
//   not check.
void prepare_last_resort();

// Whether fewer than `bytes` bytes are left to this process. With the default, a library that failed or crashed may
// have been refused memory.
bool memory_is_short(std::size_t bytes = std::size_t{64} << 20);

// Call at the beginning of main. From now on, a call of exit() means that a library gave up, as OpenMP does when it
// gets no thread. The process then ends with exit code 4 and a sentence. Where less than 4 GiB is left, all threads
// share one malloc arena; otherwise each would reserve 64 MiB of addresses.
void begin_main();

// Call when the exit code is decided and any error is reported. From now on exit() is in order. If the process crashes
// while it exits, it still ends with this code. Later calls change nothing.
void settle_exit_code(int exit_code);

}  // namespace trainyard::base
