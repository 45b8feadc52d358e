// Interruption of programs that write a file whole or not at all. A signal stops the program at the next piece of work,
// and unfinished files are removed on the way out.
#pragma once

#include "libtrain/base/error.h"

#include <cstdint>
#include <functional>
#include <string>

namespace trainyard::tools {

// Thrown at the next piece of work after a stop request.
struct Interrupted {};

// From here on INT, TERM and HUP request a stop, unless they are ignored. of_files: a second signal ends the program at
// once, as a kill does. of_pipes: a read that waits for another process returns after a signal, and again every second
// until the program sees the stop.
enum class Reads { of_files, of_pipes };
void watch_signals(Reads reads = Reads::of_files);
void require_not_interrupted();  // throws Interrupted

// Prints that the work was stopped (`what`: "DST is not there"), and ends the process by the signal that came.
[[noreturn]] void end_by_signal(const std::string& program, const std::string& what);

// A callback for work that reports its progress in bytes or elements. It shows a line with rate and time left
// (--progress `mode`), and throws Interrupted after a stop request.
enum class Progressing { bytes, elements };
std::function<void(std::int64_t done, std::int64_t total)> progress_watch(const char* label, const std::string& mode,
                                                                          Progressing unit);

}  // namespace trainyard::tools
