// Counts n-grams of a line, and makes scores of sums. Doubles are combined in the order that sacrebleu combines them
// in, so that all digits are equal.
#include "libtrain/data/translation/scores.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/setting_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace trainyard::data::translation {

namespace {

constexpr int character_orders = 6, word_orders = 2;
constexpr std::size_t integers_per_order = 3;  // of chrF: n-grams of the hypothesis, of the reference, of both
constexpr std::uint32_t unknown_word = 1;      // a word of a reference that the hypothesis lacks

int chrf_orders(Metric metric) { return metric == Metric::chrf ? character_orders : character_orders + word_orders; }

double share_of(std::int64_t part, std::int64_t all) { return static_cast<double>(part) / static_cast<double>(all); }

// Signs of ASCII that chrF2++ takes from a word.
bool is_word_sign(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// The F score for beta 2, of means over the orders that both sides have.
double chrf_of(std::span<const std::int64_t> sums) {
  constexpr double factor = 4;
  double precision = 0, recall = 0;
  int orders = 0;
  for (std::size_t i = 0; i + 2 < sums.size(); i += integers_per_order) {
    if (sums[i] <= 0 || sums[i + 1] <= 0) continue;
    precision += share_of(sums[i + 2], sums[i]);
    recall += share_of(sums[i + 2], sums[i + 1]);
    ++orders;
  }
  if (orders == 0) return 0;
  precision /= orders;
  recall /= orders;
  if (precision + recall == 0) return 0;
  return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

}  // namespace

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> names{"bleu", "chrf", "chrf++"};
  return names;
}

Metric metric_of(std::string_view name) {
  const auto& names = metric_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) {
    const auto hint = base::value_hint(name, names);
    throw base::UsageError(base::text("$metric {} is not known; use {}", name, fmt::join(names, ", ")),
                           !hint.empty() ? hint : base::text("$metric bleu,chrf gives both"));
  }
  return static_cast<Metric>(at - names.begin());
}

std::string_view title_of(Metric metric) {
  switch (metric) {
    case Metric::bleu: return "BLEU";
    case Metric::chrf: return "chrF2";
    case Metric::chrf_with_word_pairs: return "chrF2++";
  }
  return {};
}

std::size_t integers_of(Metric metric) {
  if (metric == Metric::bleu) return 2 + 2 * BleuScore::orders;
  return integers_per_order * base::size(chrf_orders(metric));
}

void LineScorer::add(std::string_view hypothesis, std::span<const std::string_view> references,
                     std::span<std::int64_t> sums) {
  TRAINYARD_ASSERT(!references.empty() && sums.size() == integers_of(rule_.metric), "{} references, {} sums",
                   references.size(), sums.size());
  reference_ngrams_.resize(references.size());
  reference_characters_.resize(references.size());
  if (rule_.metric == Metric::bleu) add_bleu(hypothesis, references, sums);
  else add_chrf(hypothesis, references, sums);
}

void LineScorer::set_words(SortedNgrams& ngrams, int orders, Numbers numbers) {
  items_.clear();
  for (const auto word : words_) {
    if (numbers == Numbers::fresh) {
      const auto next = static_cast<std::uint32_t>(numbers_.size()) + unknown_word + 1;
      items_.push_back(numbers_.try_emplace(std::u32string(word), next).first->second);
    } else {
      const auto found = numbers_.find(std::u32string(word));
      items_.push_back(found == numbers_.end() ? unknown_word : found->second);
    }
  }
  ngrams.set(items_, orders);
}

void LineScorer::add_bleu(std::string_view hypothesis, std::span<const std::string_view> references,
                          std::span<std::int64_t> sums) {
  const auto read = [&](std::string_view line, SortedNgrams& ngrams, Numbers numbers) {
    decode(line, text_);
    split_for_bleu(text_, rule_.tokenizer, made_, words_);
    set_words(ngrams, BleuScore::orders, numbers);
  };
  numbers_.clear();
  read(hypothesis, ngrams_, Numbers::fresh);
  const auto words = ngrams_.count(1);
  std::int64_t nearest = -1;
  for (std::size_t r = 0; r < references.size(); ++r) {
    read(references[r], reference_ngrams_[r], Numbers::known);
    const auto length = reference_ngrams_[r].count(1);
    const auto far = std::abs(length - words), least = std::abs(nearest - words);
    if (nearest < 0 || far < least || (far == least && length < nearest)) nearest = length;
  }
  sums[0] += words;
  sums[1] += nearest;
  for (int order = 1; order <= BleuScore::orders; ++order) {
    base::at(sums, 1 + order) += ngrams_.matches(reference_ngrams_, order);
    base::at(sums, 1 + BleuScore::orders + order) += ngrams_.count(order);
  }
}

// The characters of text_ that are no white space.
void LineScorer::set_characters(SortedNgrams& ngrams) {
  items_.clear();
  for (const auto c : text_)
    if (!is_white_space(c)) items_.push_back(static_cast<std::uint32_t>(c) + 1);
  ngrams.set(items_, character_orders);
}

// Divides each of words_ once: a sign at its end, else one at its beginning, is a word. One character stays whole.
void LineScorer::split_punctuation() {
  parts_.clear();
  for (const auto word : words_) {
    if (word.size() > 1 && is_word_sign(word.back())) {
      parts_.push_back(word.substr(0, word.size() - 1));
      parts_.push_back(word.substr(word.size() - 1));
    } else if (word.size() > 1 && is_word_sign(word.front())) {
      parts_.push_back(word.substr(0, 1));
      parts_.push_back(word.substr(1));
    } else {
      parts_.push_back(word);
    }
  }
  words_.swap(parts_);
}

// Of several references, the line counts against the one with the highest score, the first one of equals.
void LineScorer::add_chrf(std::string_view hypothesis, std::span<const std::string_view> references,
                          std::span<std::int64_t> sums) {
  const bool has_words = rule_.metric == Metric::chrf_with_word_pairs;
  const auto read = [&](std::string_view line, SortedNgrams& characters, SortedNgrams& ngrams, Numbers numbers) {
    decode(line, text_);
    set_characters(characters);
    if (!has_words) return;
    split(text_, words_);
    split_punctuation();
    set_words(ngrams, word_orders, numbers);
  };
  numbers_.clear();
  read(hypothesis, characters_, ngrams_, Numbers::fresh);
  double best_score = -1;
  std::array<std::int64_t, integers_per_order*(character_orders + word_orders)> best{}, own{};
  for (std::size_t r = 0; r < references.size(); ++r) {
    read(references[r], reference_characters_[r], reference_ngrams_[r], Numbers::known);
    std::size_t at = 0;
    const auto compare = [&](const SortedNgrams& ours, const SortedNgrams& theirs, int orders) {
      for (int order = 1; order <= orders; ++order) {
        const auto there = theirs.count(order);
        own[at++] = there > 0 ? ours.count(order) : 0;  // an order that a reference lacks does not count
        own[at++] = there;
        own[at++] = ours.matches({&theirs, 1}, order);
      }
    };
    compare(characters_, reference_characters_[r], character_orders);
    if (has_words) compare(ngrams_, reference_ngrams_[r], word_orders);
    const auto score = chrf_of({own.data(), sums.size()});
    if (score > best_score) best_score = score, best = own;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += best[i];
}

double BleuScore::ratio() const { return reference_words == 0 ? 0 : share_of(hypothesis_words, reference_words); }

BleuScore bleu_of(std::span<const std::int64_t> sums) {
  TRAINYARD_ASSERT(sums.size() == integers_of(Metric::bleu), "{} sums", sums.size());
  BleuScore out;
  out.hypothesis_words = sums[0];
  out.reference_words = sums[1];
  std::copy_n(sums.begin() + 2, BleuScore::orders, out.matched.begin());
  std::copy_n(sums.begin() + 2 + BleuScore::orders, BleuScore::orders, out.all.begin());
  if (out.hypothesis_words < out.reference_words)
    out.brevity_penalty =
        out.hypothesis_words > 0 ? std::exp(1 - share_of(out.reference_words, out.hypothesis_words)) : 0;
  if (std::all_of(out.matched.begin(), out.matched.end(), [](auto n) { return n == 0; })) return out;
  double smoothing = 1, logarithms = 0;
  for (std::size_t i = 0; i < out.all.size(); ++i) {
    auto& precision = out.precisions[i];
    const auto all = static_cast<double>(out.all[i]);
    if (out.all[i] == 0) return out;  // the logarithm of 0: the score is 0
    if (out.matched[i] == 0) {
      smoothing *= 2;
      precision = 100. / (smoothing * all);
    } else {
      precision = 100. * static_cast<double>(out.matched[i]) / all;
    }
    logarithms += std::log(precision);
  }
  out.score = out.brevity_penalty * std::exp(logarithms / BleuScore::orders);
  return out;
}

double score_of(Metric metric, std::span<const std::int64_t> sums) {
  TRAINYARD_ASSERT(sums.size() == integers_of(metric), "{} sums", sums.size());
  return metric == Metric::bleu ? bleu_of(sums).score : chrf_of(sums);
}

std::string signature_of(const ScoreRule& rule, std::int64_t references, const std::optional<Resamples>& resamples,
                         std::string_view version) {
  auto out = fmt::format("nrefs:{}", references);
  if (resamples) out += fmt::format("|bs:{}|seed:{}", resamples->count, resamples->seed);
  if (rule.metric == Metric::bleu)
    out += fmt::format("|case:mixed|eff:no|tok:{}|smooth:exp",
                       base::at(bleu_tokenizer_names(), static_cast<int>(rule.tokenizer)));
  else
    out += fmt::format("|case:mixed|eff:yes|nc:{}|nw:{}|space:no", character_orders,
                       rule.metric == Metric::chrf ? 0 : word_orders);
  return out + fmt::format("|version:{}", version);
}

}  // namespace trainyard::data::translation
