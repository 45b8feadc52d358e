// The frame of every program: it parses, runs, and turns exceptions into one sentence and an exit code.
#pragma once

#include "libtrain/base/error.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace trainyard::tools {

// What a program of several ranks does instead when the parser ends it: each rank has read its own command line. Both
// return the exit code.
struct OnRanks {
  std::function<int(const base::UsageError& error)> refuse;                   // reports a wrong command line
  std::function<int(const std::string& flag, const std::string& text)> show;  // prints the text of help
};

// Parses the command line into `app`, which takes underscores for hyphens in the names of flags (and writes the hyphens
// into argv), ignores SIGPIPE and SIGXFSZ, runs `body`, and catches its exceptions.
// A usage error prints one sentence, with what was probably meant where that can be found out, and is exit 2. An empty
// value of a flag is a usage error, too: most often a variable of a script is unset. --help and --version are exit 0.
// base::Error prints "name: what" and "  try: hint" on stderr and gives its exit code. Any other exception is exit 1
// and asks for a report. Faults that cannot be caught are left to base/last_resort.h.
// A reader of stdout that has gone is no error. A stdout that cannot take the product is exit 4, whoever wrote to it.
int guarded(CLI::App& app, int argc, char** argv, const std::function<base::ExitCode()>& body,
            const OnRanks& on_ranks = {});

// How messages of the library name a setting in a program with this frame: "micro-batch" is "--micro-batch".
std::string flag_of(std::string_view setting);

// Writes to stdout at once. On a terminal it writes only what may be shown (base/text.h), elsewhere the bytes
// unchanged. Returns false when the reader went away, which is no error. EnvironmentError when there is no space.
bool print(std::string_view text);
// Whether tasks of this machine had to wait for a core in half of the ten seconds before this program began, or more,
// as Linux' pressure stall information says (since 4.20; "some avg10=98.10 ..."). False where there is none.
bool cores_were_contended();

// Prints an error on stderr as guarded() does, and returns its exit code.
int report(const std::string& program, const std::exception& error);

// Sets the description, the examples and the "See also" line with which --help ends.
void describe_program(CLI::App& app, const std::string& sentence, const std::string& examples,
                      const std::string& see_also);

}  // namespace trainyard::tools
