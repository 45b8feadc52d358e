// score --references: BLEU and chrF of translations, without a model.
#pragma once

#include "libtrain/base/error.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::score {

struct TranslationOptions {
  std::string input;  // "-": standard input
  std::vector<std::string> references;
  std::vector<std::string> metrics = {"bleu", "chrf"};
  std::string tokenizer = "13a";
  std::string baseline;         // empty: none
  std::int64_t confidence = 0;  // resampled texts; 0: none
  std::uint64_t seed = 12345;
  bool json = false;
};

// All flags but --input and --json, which questions have, too.
void add_translation_options(CLI::App& app, TranslationOptions& options);
// UsageError for flags of questions beside --references, for flags of translations without it, and for flags that need
// another one.
void check_mode(const CLI::App& app, const TranslationOptions& options);
// Reads all lines and prints a line for each metric.
void score_translations(const TranslationOptions& options);

}  // namespace trainyard::score
