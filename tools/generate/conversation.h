// Prompts line by line from standard input, each with an answer of its own.
#pragma once

#include "tools/generate/loaded.h"

namespace trainyard::generate {

// Answers each line of standard input as a run with that prompt would (an empty line: a run without one), until the
// input ends or the reader of the output has gone. Answers know nothing of the lines before. Behind the text of an
// answer there is an empty line; JSON is one line an answer. A line that is refused is said on stderr, and the next one
// is read; JSON has its "error". InputError at the end where some were and standard input is no terminal.
//
// From here on SIGINT, where nobody ignores it, ends the answer that is being made; a second one, or one that finds
// none being made, ends the program as the signal does.
void converse(const Options& options, Loaded& loaded);

}  // namespace trainyard::generate
