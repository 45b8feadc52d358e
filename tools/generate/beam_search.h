// BeamSearch: the likeliest texts, of which several are extended side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::generate {

struct BeamSettings {
  std::int64_t beams = 4;
  // A finished text is worth the sum of the log probabilities of its tokens, its end among them, divided by
  // (their number)^length_penalty, as transformers has it. 0: the sum itself; above 1 prefers long texts.
  double length_penalty = 1;
  std::int64_t tokens = 100;                   // at most so many new tokens
  std::vector<std::int32_t> ends = {};         // tokens that end a text; empty: only the number of tokens does
  std::vector<std::int32_t> stop_tokens = {};  // end a text, too
  std::int64_t vocabulary = 0;                 // only tokens below it are taken
};

struct Hypothesis {
  std::vector<std::int32_t> tokens;       // without the end
  std::vector<double> log_probabilities;  // of these tokens
  double sum = 0;                         // of all log probabilities, that of the end among them
  double score = 0;                       // of a finished text
  bool ended = false;                     // by a token; else by the number of tokens
};

// In each turn every running text has logits, and the 2 N likeliest extensions of all are looked at, N being `beams`.
// Those of the first N that end a text are finished texts, of which the N best stay. The first N that do not end run
// on. The search is over when N texts are finished and none of the running ones, at its present length, is worth more
// than the worst of them, or when texts have as many tokens as they may. Of equal sums the lower text counts, then the
// lower token. Sums are of f64. (Wu et al. 2016, section 7, describe the search; the rules are those of transformers
// with early_stopping false.)
class BeamSearch {
 public:
  explicit BeamSearch(const BeamSettings& settings);
  // One for each running text, in order; the first turn has one text without tokens. Returns whether the search goes
  // on. CheckError when a logit is not finite.
  bool take(std::span<const std::span<const float>> logits);
  // The running texts; the last token of each is new. from()[i]: which text of the turn before it extends.
  const std::vector<Hypothesis>& running() const { return running_; }
  const std::vector<std::int64_t>& from() const { return from_; }
  // The finished texts, best first.
  const std::vector<Hypothesis>& finished() const { return finished_; }

 private:
  struct Extension {
    double sum;
    std::int64_t text;
    std::int32_t token;
    double log_probability;
  };
  std::vector<Extension> likeliest(std::span<const std::span<const float>> logits) const;
  void finish(const Extension& extension, bool ended);
  double worth(double sum, std::int64_t tokens) const;
  BeamSettings settings_;
  std::int64_t turns_ = 0;
  std::vector<Hypothesis> running_, finished_;
  std::vector<std::int64_t> from_;
};

}  // namespace trainyard::generate
