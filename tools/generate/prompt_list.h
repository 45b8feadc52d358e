// PromptList: many prompts, continued some at a time.
#pragma once

#include "tools/generate/loaded.h"
#include "tools/generate/output.h"

namespace trainyard::generate {

// Reads options.prompts, a file with a prompt on each line: a JSON text, {"prompt": TEXT} or {"ids": [...]}, with "id"
// where the user wants one back. Prints a line of JSON for each, in order; a text is what the prompt alone would give.
// InputError for a line that is no prompt or is too long: of a file, before anything is continued; of a pipe, behind
// the answers to the prompts before it.
void continue_all(const Options& options, Loaded& loaded);

}  // namespace trainyard::generate
