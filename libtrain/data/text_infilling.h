// Text infilling: a model restores a text of which spans were replaced by single masks, and whose sentences were
// shuffled (Lewis et al. 2020, "BART"; Liu et al. 2020, "Multilingual denoising pre-training").
#pragma once

#include "libtrain/base/decimal.h"
#include "libtrain/data/keyed_draws.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trainyard::data {

// Shares and lengths are of tokens, where the papers count words.
struct TextInfilling {
  base::Fraction rate{7, 20};                 // share of tokens that are masked
  double mean_span = 3.5;                     // tokens of a span: of the Poisson distribution
  std::int32_t mask_token = 0;                // stands for a whole span
  std::int32_t end = 0;                       // ends inputs and targets
  std::vector<std::uint8_t> sentence_ends{};  // 1 for each token of the data that ends a sentence; empty: the order
                                              // of sentences stays
};

// How long a span is: length k where a draw of 32 bits is below thresholds()[k] and not below the one before it.
class PoissonLengths {
 public:
  // Threshold k is floor(2^32 (w_0 + .. + w_k) / W), where w_0 is 1, w_k is w_(k - 1) * mean / k, and W is the sum of
  // all w until they change it no more; the last threshold is 2^32. Each operation is one of f64, so that no logarithm
  // or exponential of a library decides. UsageError for a mean that is not from 0.5 to 64.
  explicit PoissonLengths(double mean);
  std::int64_t operator()(std::uint64_t draw) const;
  std::span<const std::uint64_t> thresholds() const { return thresholds_; }

 private:
  std::vector<std::uint64_t> thresholds_;
};

struct InfilledPtrs {
  std::int32_t *inputs, *targets;  // room for one more than the tokens
};
struct InfilledCounts {
  std::int64_t inputs = 0, targets = 0;  // lengths, with the end
  std::int64_t masked = 0, spans = 0;    // tokens behind masks; masks
};

// Makes inputs and targets of sequences by one rule. Any thread may call it.
class TextInfiller {
 public:
  // UsageError for a rate or a mean that is not possible.
  explicit TextInfiller(TextInfilling rule);

  // 1. The sentences come in a random order, each order equally likely. A sentence ends with a token that ends one, and
  //    the last sentence may have no such token. For i from the last sentence down to 1, sentence i and sentence
  //    (draw i below i + 1) change places (KeyedDraws, purpose "text infilling", site "order").
  // 2. ceil(rate n) of n tokens are masked. Spans get lengths by PoissonLengths of the upper 32 bits of draws 0, 1, ...
  //    of the site "lengths", until the lengths have that sum; the last is shortened to it. A span of length 0 is a
  //    mask between tokens. Of these the last ones are left out, where inputs would be longer than targets.
  // 3. Spans lie anywhere, each choice equally likely: of all tokens that stay and all spans, KeyedDraws of the site
  //    "places" choose which are spans.
  // Inputs are what stays, with the mask in place of each span; targets are the tokens in their own order. Both end
  // with `end`. Ends of documents are tokens as all others. InputError without a token.
  InfilledCounts fill(const SampleKey& key, std::span<const std::int32_t> tokens, const InfilledPtrs& out) const;

 private:
  std::vector<std::int32_t> shuffled(const SampleKey& key, std::span<const std::int32_t> tokens) const;

  TextInfilling rule_;
  PoissonLengths lengths_;
};

// Whether the text ends with a full stop, an exclamation or question mark, or an ellipsis, of Latin, Chinese, Indic,
// Arabic or Ethiopic scripts. Spaces, closing quotes and closing brackets behind it do not count.
bool ends_sentence(std::string_view text);
// The table of the tokens whose text ends a sentence.
std::vector<std::uint8_t> sentence_ends_of(const Tokenizer& tokenizer);

}  // namespace trainyard::data
