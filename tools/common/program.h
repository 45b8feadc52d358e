// The frame of every program: parse, run, turn exceptions into one sentence and an exit code.
#pragma once

#include "libtrain/base/error.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace trainyard::tools {

// Parses the command line into `app` (a usage error prints one sentence and is exit 2, with what was meant where that
// can be told; so does an empty value of a flag, which is most often an unset variable of a script; --help and
// --version are exit 0), ignores SIGPIPE and SIGXFSZ, runs `body`, and catches: base::Error prints "name: what" and "
// try: hint" on stderr and gives its code; anything else asks for a report and is 1. What no catch can end is left to
// base/last_resort.h. A closed stdout is no error; one that cannot hold the product is exit 4, whoever wrote to it.
// `refuse`, where there is one, says what is wrong with the command line, and gives the exit code: of several ranks,
// each of which has read the same one.
int guarded(CLI::App& app, int argc, char** argv, const std::function<base::ExitCode()>& body,
            const std::function<int(const base::UsageError& error)>& refuse = {});

// Writes to stdout at once; on a terminal what it may show (base/text.h), elsewhere the very bytes. False when the
// reader went away, which is no error; EnvironmentError where there is no space.
bool print(std::string_view text);

// The same for the error side alone: prints it, returns its code.
int report(const std::string& program, const std::exception& error);

// Sets the first sentence, the two examples and the pointers that --help ends with.
void describe_program(CLI::App& app, const std::string& sentence, const std::string& examples,
                      const std::string& see_also);

}  // namespace trainyard::tools
