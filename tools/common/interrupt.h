// A program that writes something whole or not at all: it is stopped by a signal at the next piece of work, and what is
// unfinished is removed on the way out.
#pragma once

#include "libtrain/base/error.h"

#include <cstdint>
#include <functional>
#include <string>

namespace trainyard::tools {

// Thrown where a stop was asked for.
struct Interrupted {};

// From here on INT, TERM and HUP, where nobody ignores them, ask for a stop. The second time they end the program at
// once, as a kill does. of_pipes: a read that waits for others returns as well, and goes on returning until the stop is
// seen.
enum class Reads { of_files, of_pipes };
void watch_signals(Reads reads = Reads::of_files);
void require_not_interrupted();  // throws Interrupted

// Says that nothing came of it (`what`: "DST is not there") and ends by the signal that came.
[[noreturn]] void end_by_signal(const std::string& program, const std::string& what);

// For work that says how far it is, in bytes or elements: shows a line with rate and time left (--progress `mode`), and
// throws where a stop was asked for.
enum class Progressing { bytes, elements };
std::function<void(std::int64_t done, std::int64_t total)> progress_watch(const char* label, const std::string& mode,
                                                                          Progressing unit);

}  // namespace trainyard::tools
