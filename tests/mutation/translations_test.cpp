// Damaged texts of translations: refused with a line, or scored between 0 and 100 with sums that fit one another.
#include "tests/mutation/harness.h"
#include "tests/scratch.h"

#include "libtrain/base/error.h"
#include "libtrain/data/translation/lines.h"
#include "libtrain/data/translation/scores.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

using namespace trainyard;
using namespace trainyard::data::translation;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace {

// What is wrong with the sums of one line.
std::string fault_of(ScoreRule rule, const std::vector<std::int64_t>& sums) {
  const auto score = score_of(rule.metric, sums);
  if (!(score >= 0 && score <= 100.0001)) return fmt::format("{} {}", title_of(rule.metric), score);
  if (*std::min_element(sums.begin(), sums.end()) < 0) return "a negative sum";
  if (rule.metric == Metric::bleu) {
    const auto bleu = bleu_of(sums);
    for (std::size_t i = 0; i < BleuScore::orders; ++i) {
      if (bleu.matched[i] > bleu.all[i]) return "more matches than n-grams";
      if (i > 0 && bleu.all[i] > bleu.all[i - 1]) return "more long n-grams than short ones";
    }
    return "";
  }
  for (std::size_t i = 0; i < sums.size(); i += 3)
    if (sums[i + 2] > sums[i] || sums[i + 2] > sums[i + 1]) return "more matches than n-grams";
  return "";
}

// Scores the texts of three paths, the first of them against the others.
std::string fault_of(const std::vector<std::string>& paths) {
  ParallelLines texts(paths);
  std::vector<std::string> lines;
  while (texts.next(lines)) {
    const std::vector<std::string_view> references(lines.begin() + 1, lines.end());
    const std::vector<std::string_view> itself{lines.front()};
    for (int i = 0; i < 7; ++i) {
      const ScoreRule rule{static_cast<Metric>(std::max(0, i - 4)), static_cast<BleuTokenizer>(i < 5 ? i : 0)};
      LineScorer scorer(rule);
      std::vector<std::int64_t> sums(integers_of(rule.metric)), equal(sums);
      scorer.add(lines.front(), references, sums);
      if (const auto fault = fault_of(rule, sums); !fault.empty()) return fault;
      scorer.add(lines.front(), itself, equal);
      if (rule.metric == Metric::bleu && (equal[0] != equal[1] || equal[0] != sums[0])) return "a line unlike itself";
      if (rule.metric != Metric::bleu && equal[0] > 0 && score_of(rule.metric, equal) != 100) return "less than 100";
    }
  }
  return "";
}

}  // namespace

TEST(TranslationTexts, Bytes) {
  Scratch scratch;
  const std::string golden = ROOT "/tests/golden/translations/";
  const auto text = slurp(golden + "signs.hypothesis");
  mutation::run(
      {"translations", [&](mutation::Random& random) { return mutation::mutate_bytes(text, random); },
       [&](const std::string& content) -> std::string {
         spit(scratch.path + "/text", content);
         return fault_of({scratch.path + "/text", golden + "signs.reference-1", golden + "signs.reference-2"});
       }});
}
