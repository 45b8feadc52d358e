// Scores of translations: BLEU and chrF of a whole text, from integers that each line adds. The numbers are those of
// sacrebleu 2 on the same text.
#pragma once

#include "libtrain/data/translation/ngrams.h"
#include "libtrain/data/translation/words.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trainyard::data::translation {

enum class Metric {
  bleu,                  // n-grams of words up to 4; exponential smoothing; case is kept
  chrf,                  // chrF2: n-grams of characters up to 6
  chrf_with_word_pairs,  // chrF2++: also words and pairs of words
};

struct ScoreRule {
  Metric metric = Metric::bleu;
  BleuTokenizer tokenizer = BleuTokenizer::mteval_13a;  // of BLEU alone
};

// As settings name a metric, "bleu"; as reports do, "BLEU". UsageError for another name.
const std::vector<std::string>& metric_names();
Metric metric_of(std::string_view name);
std::string_view title_of(Metric metric);

// How many integers a line gives. They are added over lines, and over ranks that have different lines; a sum does not
// depend on the order. bleu_of and score_of say what a sum means.
std::size_t integers_of(Metric metric);

// Compares lines. It keeps its buffers, so each thread needs one of its own.
class LineScorer {
 public:
  explicit LineScorer(ScoreRule rule) : rule_(rule) {}
  const ScoreRule& rule() const { return rule_; }
  // Adds what the line gives to `sums`, which has integers_of(metric). All lines are valid UTF-8, and there is at least
  // one reference. An empty reference counts as one.
  void add(std::string_view hypothesis, std::span<const std::string_view> references, std::span<std::int64_t> sums);

 private:
  void add_bleu(std::string_view hypothesis, std::span<const std::string_view> references,
                std::span<std::int64_t> sums);
  void add_chrf(std::string_view hypothesis, std::span<const std::string_view> references,
                std::span<std::int64_t> sums);
  void set_characters(SortedNgrams& ngrams);
  // Numbers of words. Those of a hypothesis get new numbers; of a reference, all that the hypothesis lacks get one.
  enum class Numbers { fresh, known };
  void set_words(SortedNgrams& ngrams, int orders, Numbers numbers);
  void split_punctuation();

  ScoreRule rule_;
  std::u32string text_, made_;
  std::vector<std::u32string_view> words_, parts_;
  std::unordered_map<std::u32string, std::uint32_t> numbers_;
  std::vector<std::uint32_t> items_;
  SortedNgrams characters_, ngrams_;
  std::vector<SortedNgrams> reference_characters_, reference_ngrams_;
};

struct BleuScore {
  static constexpr int orders = 4;
  double score = 0;                            // 0 to 100
  std::array<double, orders> precisions = {};  // 0 to 100
  double brevity_penalty = 1;
  // Of the references, the length of each line is the one that is nearest to the hypothesis; the shorter one of two.
  std::int64_t hypothesis_words = 0, reference_words = 0;
  std::array<std::int64_t, orders> matched = {}, all = {};  // n-grams of the hypothesis
  double ratio() const;                                     // of the lengths; 0 without words of references
};
BleuScore bleu_of(std::span<const std::int64_t> sums);
double score_of(Metric metric, std::span<const std::int64_t> sums);  // 0 to 100

struct Resamples {
  std::int64_t count = 0;
  std::uint64_t seed = 0;
};

// What has to be equal where scores are compared, as in sacrebleu: "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|".
// `version` comes last, and says who computed.
std::string signature_of(const ScoreRule& rule, std::int64_t references, const std::optional<Resamples>& resamples,
                         std::string_view version);

}  // namespace trainyard::data::translation
