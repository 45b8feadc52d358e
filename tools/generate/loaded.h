// Loaded: all of a checkpoint that continuing a text takes.
#pragma once

#include "libtrain/data/tokenizer.h"
#include "tools/generate/beginning.h"
#include "tools/generate/language_model.h"
#include "tools/generate/options.h"
#include "tools/generate/prompt.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace trainyard::generate {

struct Loaded {
  std::string folder;  // of the checkpoint
  std::int64_t step = 0;
  std::unique_ptr<data::Tokenizer> tokenizer;
  Beginning beginning;
  PromptTokens prompt;  // of the text that load was given
  std::unique_ptr<LanguageModel> model;
};

// The checkpoint and tokenizer that the options name. A `prompt` is refused before the weights are read. InputError for
// what is not there, or does not belong together.
Loaded load(const Options& options, const std::optional<std::string>& prompt);

}  // namespace trainyard::generate
