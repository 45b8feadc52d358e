// The flags of pairs of a source and a target, and what they ask for.
#pragma once

#include "libtrain/data/document_source.h"
#include "libtrain/data/text_pair.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::tools {

struct PairFlags {
  std::vector<std::string> files;  // SOURCE:TARGET
  std::string keys, language_keys, language_token = "<2{}>";
  std::vector<std::string> source_languages, target_languages;
  std::int64_t max_source = 0, max_target = 0;
  bool asked() const { return !files.empty() || !keys.empty(); }
};

void add_pairs(CLI::App& app, PairFlags& flags);

// The pairs that are asked for; null: none are. Adds the files of sources to `inputs`. UsageError for flags that
// contradict one another, or other flags of `app`.
std::shared_ptr<const data::PairOptions> pairs_of(const PairFlags& flags, const CLI::App& app,
                                                  std::vector<std::string>& inputs);

// The names of the language tokens that all lines of an input have, each once.
std::vector<std::string> language_tokens(const data::PairOptions& pairs);

}  // namespace trainyard::tools
