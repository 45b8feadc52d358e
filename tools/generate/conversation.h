// Answers prompts from standard input line by line.
#pragma once

#include "tools/generate/loaded.h"

namespace trainyard::generate {

// Answers each line of standard input as a run with that prompt would; an empty line means no prompt. It goes on until
// the input ends or the reader of the output has gone. Answers do not depend on earlier lines. An empty line follows
// the text of an answer; with JSON an answer is one line. A refused line is reported on stderr, and in JSON as "error";
// then the next line is read. At the end, InputError if lines were refused and standard input is no terminal.
// From here on, SIGINT ends the current answer, unless it is ignored. A second SIGINT, or one while no answer is
// generated, ends the program as the signal does.
void converse(const Options& options, Loaded& loaded);

}  // namespace trainyard::generate
