// train --evaluate --metric: scores of targets that the model writes for the sources of a set of pairs.
#pragma once

#include "libtrain/engine/evaluate.h"
#include "libtrain/engine/world.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::tools {

struct MetricScore {
  std::string metric;  // as --metric names it
  double score = 0;    // 0 to 100
  std::string signature;
  std::int64_t pairs = 0;
  struct OfLanguages {
    std::string languages;  // "en-de"
    std::int64_t pairs = 0;
    double score = 0;
  };
  std::vector<OfLanguages> of_languages = {};  // in the order in which the set has them; empty: none are known
};

// Writes a target greedily for each source that the evaluation read, of at most `evaluation.sequence` tokens, and
// compares it with the text of the pair's own target. The numbers are those of sacrebleu on these texts. Collective:
// ranks have every n-th pair each, and every rank returns the same scores. Each rank holds all weights in f32, and
// computes on its CPU. Rank 0 calls `watch` with pairs done and all, of its own.
// UsageError if the set has no pairs; InputError if its tokenizer is not available.
std::vector<MetricScore> metric_scores(const engine::Evaluation& evaluation, const engine::RunConfig& run,
                                       const std::vector<std::string>& metrics, std::int64_t most_pairs,
                                       engine::World& world,
                                       const std::function<void(std::int64_t done, std::int64_t all)>& watch);

}  // namespace trainyard::tools
