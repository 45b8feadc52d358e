// Draws random numbers for each position: first which positions are chosen, then what the model sees there.
#include "libtrain/data/masking.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/random.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/data/set_tokenizer.h"

#include <algorithm>
#include <array>

namespace trainyard::data {

namespace {

// Thresholds out of 2^32: below the first a mask token, below the second a random token.
constexpr std::uint64_t all = std::uint64_t{1} << 32, masked_below = all * 8 / 10, random_below = all * 9 / 10;

std::array<std::uint32_t, 4> words_of(const MaskDraws& d, std::int64_t position) {
  return base::random_words(d.seed + d.sample * 0x9E3779B97F4A7C15ull, d.site, static_cast<std::uint64_t>(position));
}

// The words of a window. The tokens of a word are chosen together.
class Words {
 public:
  Words(const Masking& masking, std::int64_t n, const std::int32_t* tokens)
      : masking_(masking), n_(n), tokens_(tokens) {}
  bool eligible(std::int64_t t) const {
    return tokens_[t] != masking_.end_of_document && tokens_[t] != masking_.begin_of_document;
  }
  bool begins(std::int64_t t) const {
    if (!eligible(t)) return false;
    if (t == 0 || !eligible(t - 1) || masking_.word_starts.empty()) return true;
    return base::at(masking_.word_starts, tokens_[t]) != 0;
  }
  // The end of the word that begins at t.
  std::int64_t end(std::int64_t t) const {
    ++t;
    while (t < n_ && eligible(t) && !begins(t)) ++t;
    return t;
  }

 private:
  const Masking& masking_;
  std::int64_t n_;
  const std::int32_t* tokens_;
};

void choose(const Masking& masking, const MaskDraws& draws, std::int64_t n, const WindowPtrs& window) {
  const Words words(masking, n, window.targets);
  const auto threshold = static_cast<std::uint64_t>(masking.rate * 0x1p32);
  std::uint64_t lowest = all;
  std::int64_t lowest_at = -1;
  bool any = false;
  std::fill_n(window.weights, n, std::uint8_t{0});
  const auto take = [&](std::int64_t t) { std::fill(window.weights + t, window.weights + words.end(t), 1); };
  for (std::int64_t t = 0; t < n; ++t) {
    if (!words.begins(t)) continue;
    const std::uint64_t draw = words_of(draws, t)[0];
    if (draw < lowest) lowest = draw, lowest_at = t;
    if (draw >= threshold) continue;
    take(t);
    any = true;
  }
  if (!any && lowest_at >= 0) take(lowest_at);
}

}  // namespace

std::int64_t mask_token_of(const std::string& folder, const SetIndex& index) {
  const auto set = tokenizer_of_set(folder, index);
  if (set.tokenizer && set.tokenizer->mask() >= 0) return set.tokenizer->mask();
  return index.vocabulary;
}

Masking masking_of(const std::string& folder, const SetIndex& index, double rate, Chosen chosen,
                   std::int32_t mask_token) {
  Masking m{rate, mask_token, index.vocabulary, index.end_of_document, {}, index.begin_of_document};
  if (chosen == Chosen::tokens) return m;
  const auto set = tokenizer_of_set(folder, index);
  if (!set.tokenizer)
    throw base::InputError(
        base::text("$mask-words hides whole words, and the words of {} are not known: {}", folder, set.why_not),
        base::text("put the tokenizer back, or leave $mask-words out: then single tokens are hidden"));
  m.word_starts.resize(base::size(index.vocabulary));
  for (std::size_t t = 0; t < m.word_starts.size(); ++t)
    m.word_starts[t] = set.tokenizer->begins_word(static_cast<std::int32_t>(t)) ? 1 : 0;
  return m;
}

MaskDraws MaskDraws::of_training(std::uint64_t seed, std::uint64_t sample) {
  return {seed, base::site_hash("mask", "training"), sample};
}

MaskDraws MaskDraws::of_evaluation(std::uint64_t window) { return {0, base::site_hash("mask", "evaluation"), window}; }

void mask_tokens(const Masking& masking, const MaskDraws& draws, std::int64_t n, const WindowPtrs& window) {
  std::copy_n(window.tokens, n, window.targets);
  choose(masking, draws, n, window);
  for (std::int64_t t = 0; t < n; ++t) {
    if (window.weights[t] == 0) continue;
    const auto w = words_of(draws, t);
    if (w[1] < masked_below) window.tokens[t] = masking.mask_token;
    else if (w[1] < random_below)
      window.tokens[t] = static_cast<std::int32_t>(w[2] * static_cast<std::uint64_t>(masking.vocabulary) >> 32);
  }
}

}  // namespace trainyard::data
