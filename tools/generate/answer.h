// The answer to one prompt: one continuation or several, shown while they are made, or as one line of JSON.
#pragma once

#include "tools/generate/loaded.h"
#include "tools/generate/output.h"

#include <functional>
#include <string>

namespace trainyard::generate {

// Makes the continuations that `options` ask for and writes them; says how fast on a terminal's stderr. Where several
// are asked for, continuation i has the seed `seed + i`, and is the text that this seed gives alone. They end where the
// reader has gone, and when `interrupted` says so, which is asked after each token: the one that is being made ends
// there, those that have not begun are left out.
void answer(const Options& options, Loaded& loaded, const std::string& prompt, const PromptTokens& tokens,
            Output& output, const std::function<bool()>& interrupted);

}  // namespace trainyard::generate
