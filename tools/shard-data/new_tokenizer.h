// --train-tokenizer: the flags of a new tokenizer, their checks, its training and its report.
#pragma once

#include "libtrain/data/build_options.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/new_tokenizer.h"
#include "libtrain/data/tokenizer.h"
#include "tools/common/progress.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace trainyard::tools {

struct NewTokenizerFlags {
  std::string kind;    // such as "bpe:32000"; empty: no tokenizer is trained
  std::string output;  // its file; empty: only the set has it
  std::string sample;  // bytes; empty: what is usual for the kind
  std::vector<std::string> special;
  bool asked() const { return !kind.empty(); }
};

void add_new_tokenizer(CLI::App& app, NewTokenizerFlags& flags);
// UsageError for flags of a new tokenizer without --train-tokenizer.
void require_asked(const NewTokenizerFlags& flags);

// What to train. `needed`: tokens that the tokenizer must have, as those of a chat template. UsageError where `around`
// names a token that it would not have.
data::TokenizerPlan plan_of(const NewTokenizerFlags& flags, const std::vector<std::string>& needed,
                            const data::DocumentTokens& around);

// A tokenizer that was just trained.
struct TrainedTokenizer {
  std::unique_ptr<data::Tokenizer> tokenizer;
  nlohmann::ordered_json report;
};

struct TokenizerTask {
  const NewTokenizerFlags& flags;
  const data::TokenizerPlan& plan;
  const data::BuildOptions& options;  // without an output, only the tokenizer is made
  const data::DocumentTokens& around;
};
// Checks all that is to be written, trains, writes the file and reports on stderr. Counts documents and refusals into
// `result`.
TrainedTokenizer train_new_tokenizer(const TokenizerTask& task, data::DocumentSource& source, ProgressMode mode,
                                     data::BuildResult& result);

}  // namespace trainyard::tools
