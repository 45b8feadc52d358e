// The answer to one prompt: one continuation or several, shown while they are generated, or as one line of JSON.
#pragma once

#include "tools/generate/loaded.h"
#include "tools/generate/output.h"

#include <functional>
#include <string>

namespace trainyard::generate {

const char* name_of(Stopped stopped);  // in JSON

// Generates the continuations that `options` ask for and writes them. If stderr is a terminal, it reports the speed
// there. If several are asked for, continuation i has the seed `seed + i`, and is the same text that this seed gives
// alone.
// They end when the reader has gone, or when `interrupted` returns true; it is called after each token. Then the
// current continuation ends, and later ones are left out.
void answer(const Options& options, Loaded& loaded, const std::string& prompt, const PromptTokens& tokens,
            Output& output, const std::function<bool()>& interrupted);

}  // namespace trainyard::generate
