// Last resort: how a process ends where no catch can end it, and what is held back for that.
#pragma once

#include <cstddef>

// Sanitizers have handlers of their own, which must be the first of all.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRAINYARD_SANITIZED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define TRAINYARD_SANITIZED
#endif
#endif

namespace trainyard::base {

// For programs; calls after the first do nothing. No call allocates. From then on
// - the first `new` that finds no memory gives back what is held back here and throws: the way out has memory;
// - an exception that nobody can catch, as of a destructor, is told in a sentence, and ends with its exit code;
// - a crash or an abort where no memory is left, as of a library that does not look, ends with 4 and a sentence.
void prepare_last_resort();

// Are fewer bytes left to this process? Without a number: so few that a library which failed or crashed may have been
// refused memory.
bool memory_is_short(std::size_t bytes = std::size_t{64} << 20);

// From now on exit() is of a library that has given up, as OpenMP's does without a thread: 4 and a sentence. Where less
// than 4 GiB is left, threads share what malloc reserves, which is 64 MiB of addresses for each otherwise.
void begin_main();

// The end is decided, and told where it has to be: exit() is in order, and whatever crashes on the way out, the process
// ends with this code. A later call changes nothing.
void settle_exit_code(int exit_code);

}  // namespace trainyard::base
