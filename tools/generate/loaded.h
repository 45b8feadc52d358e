// Loaded: everything that continuing a text needs of a checkpoint.
#pragma once

#include "libtrain/data/tokenizer.h"
#include "tools/generate/beginning.h"
#include "tools/generate/language_model.h"
#include "tools/generate/options.h"
#include "tools/generate/pair_model.h"
#include "tools/generate/prompt.h"
#include "tools/generate/scorer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::generate {

struct Opened {
  std::string folder;  // the checkpoint's
  std::int64_t step = 0;
  std::unique_ptr<data::Tokenizer> tokenizer;
  std::vector<std::int32_t> ends;  // the tokenizer's end of document, and all that the weights' origin recorded
  Beginning beginning;
};

struct Loaded : Opened {
  std::vector<std::int32_t> stop_tokens;  // those of --stop that have no text
  PromptTokens prompt;                    // tokens of the prompt that load() was given
  std::unique_ptr<LanguageModel> model;
};

struct LoadedScorer : Opened {
  std::unique_ptr<Scorer> scorer;
};

struct LoadedPairs : Opened {
  std::vector<std::int32_t> stop_tokens;
  std::vector<std::int32_t> source, first;  // of the prompt that load_pairs was given; what a decoder reads first
  std::unique_ptr<PairModel> model;
};

// Whether the checkpoint that the options name has an encoder.
bool has_encoder(const Options& options);

// Loads the checkpoint and tokenizer that the options name. A wrong `prompt` is refused before the weights are read.
// InputError for parts that do not exist or do not belong together.
Loaded load(const Options& options, const std::optional<std::string>& prompt);

// The same for a model with an encoder, whose prompt is a source.
LoadedPairs load_pairs(const Options& options, const std::optional<std::string>& prompt);

// The same for scores of texts, at most `batch` in a pass.
LoadedScorer load_scorer(const Options& options, std::int64_t batch);

}  // namespace trainyard::generate
