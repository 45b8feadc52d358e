// Scores of translations against sacrebleu's on the same text, sums over ranks, intervals, and lines that are read.
#include "tests/refusal.h"
#include "tests/scratch.h"

#include "libtrain/base/error.h"
#include "libtrain/data/translation/lines.h"
#include "libtrain/data/translation/ngrams.h"
#include "libtrain/data/translation/resampling.h"
#include "libtrain/data/translation/scores.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace translations_test {

using namespace trainyard;
using namespace trainyard::data::translation;
using trainyard::testing::refusal_of;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;
using Integers = std::vector<std::int64_t>;

const std::string golden = GOLDEN_TRANSLATIONS;

// tests/golden/translation_scores.py wrote the scores of sacrebleu.
nlohmann::json expected() { return nlohmann::json::parse(slurp(golden + "/scores.json")); }

std::vector<std::string> lines_of(const std::string& name) {
  std::vector<std::string> out;
  TextLines lines(golden + "/" + name);
  for (std::string line; lines.next(line);) out.push_back(line);
  return out;
}

// The integers of each line.
std::vector<Integers> compared(ScoreRule rule, const std::vector<std::string>& hypotheses,
                               const std::vector<std::vector<std::string>>& references) {
  LineScorer scorer(rule);
  std::vector<Integers> out;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    std::vector<std::string_view> own;
    for (const auto& r : references) own.push_back(r.at(i));
    out.emplace_back(integers_of(rule.metric));
    scorer.add(hypotheses[i], own, out.back());
  }
  return out;
}

Integers sum_of(const std::vector<Integers>& lines) {
  auto out = lines.at(0);
  for (std::size_t i = 1; i < lines.size(); ++i)
    for (std::size_t k = 0; k < out.size(); ++k) out[k] += lines[i].at(k);
  return out;
}

Integers flat(const std::vector<Integers>& lines) {
  Integers out;
  for (const auto& line : lines) out.insert(out.end(), line.begin(), line.end());
  return out;
}

ScoreRule rule_of(const nlohmann::json& score) {
  return {metric_of(score["metric"].get<std::string>()), bleu_tokenizer_of(score.value("tokenizer", "13a"))};
}

// As sacrebleu prints a score.
std::string shown(Metric metric, std::span<const std::int64_t> sums) {
  auto out = fmt::format("{} = {:.2f}", title_of(metric), score_of(metric, sums));
  if (metric != Metric::bleu) return out;
  const auto b = bleu_of(sums);
  return out + fmt::format(" {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
                           b.precisions[0], b.precisions[1], b.precisions[2], b.precisions[3], b.brevity_penalty,
                           b.ratio(), b.hypothesis_words, b.reference_words);
}

TEST(Translations, ScoresAreThoseOfSacrebleu) {
  int scores = 0;
  const auto all = expected();
  for (const auto& [name, one] : all.items()) {
    const auto hypotheses = lines_of(name + ".hypothesis");
    for (const auto& score : one["scores"]) {
      std::vector<std::vector<std::string>> references;
      for (int r = 1; r <= score["references"]; ++r)
        references.push_back(lines_of(fmt::format("{}.reference-{}", name, r)));
      const auto rule = rule_of(score);
      const auto lines = compared(rule, hypotheses, references);
      const auto what = fmt::format("{} {} {}", name, score["metric"].dump(), score.value("tokenizer", ""));
      if (score.contains("lines")) {
        EXPECT_EQ(lines, score["lines"].get<std::vector<Integers>>()) << what;
      }
      const auto sums = sum_of(lines);
      EXPECT_DOUBLE_EQ(score_of(rule.metric, sums), score["score"].get<double>()) << what;
      EXPECT_EQ(shown(rule.metric, sums), score["shown"].get<std::string>()) << what;
      auto signature = score["signature"].get<std::string>();
      signature.resize(signature.rfind(':') + 1);
      EXPECT_EQ(signature_of(rule, score["references"], {}, ""), signature) << what;
      if (rule.metric == Metric::bleu) {
        const auto bleu = bleu_of(sums);
        for (std::size_t i = 0; i < BleuScore::orders; ++i) {
          EXPECT_DOUBLE_EQ(bleu.precisions[i], score["precisions"][i].get<double>()) << what;
          EXPECT_EQ(bleu.matched[i], score["matched"][i]) << what;
          EXPECT_EQ(bleu.all[i], score["all"][i]) << what;
        }
        EXPECT_DOUBLE_EQ(bleu.brevity_penalty, score["brevity_penalty"].get<double>()) << what;
      }
      ++scores;
    }
  }
  EXPECT_GE(scores, 150);
}

// Lines may be anywhere, and be added in any order.
TEST(Translations, SumsOverRanksAreExact) {
  const auto hypotheses = lines_of("drawn.hypothesis");
  const std::vector references{lines_of("drawn.reference-1"), lines_of("drawn.reference-2")};
  for (const auto metric : {Metric::bleu, Metric::chrf, Metric::chrf_with_word_pairs}) {
    const auto whole = sum_of(compared({metric}, hypotheses, references));
    for (const std::size_t ranks : {2, 7}) {
      std::vector<Integers> sums(ranks, Integers(integers_of(metric)));
      std::vector<LineScorer> scorers(ranks, LineScorer({metric}));
      for (std::size_t i = hypotheses.size(); i-- > 0;) {
        const std::vector<std::string_view> own{references[0][i], references[1][i]};
        scorers[i % ranks].add(hypotheses[i], own, sums[i % ranks]);
      }
      EXPECT_EQ(sum_of(sums), whole);
    }
  }
}

TEST(Translations, NamesAndRefusals) {
  EXPECT_EQ(metric_of("chrf++"), Metric::chrf_with_word_pairs);
  EXPECT_EQ(bleu_tokenizer_of("zh"), BleuTokenizer::chinese);
  EXPECT_NE(refusal_of<base::UsageError>([] { metric_of("ter"); }).find("ter is not known; use bleu, chrf, chrf++"),
            std::string::npos);
  EXPECT_NE(refusal_of<base::UsageError>([] { bleu_tokenizer_of("ja-mecab"); }).find("use 13a, none, char, intl, zh"),
            std::string::npos);
  EXPECT_EQ(signature_of({Metric::chrf}, 2, Resamples{1000, 12345}, "x"),
            "nrefs:2|bs:1000|seed:12345|case:mixed|eff:yes|nc:6|nw:0|space:no|version:x");
  LineScorer scorer({});
  Integers sums(3);
  const std::vector<std::string_view> one{"a"};
  EXPECT_THROW(scorer.add("a", one, sums), std::logic_error);
  sums.resize(integers_of(Metric::bleu));
  EXPECT_THROW(scorer.add("a", {}, sums), std::logic_error);
}

// Text of a model may have line feeds, where files have none. To 13a a hyphen before one is no part of the word.
TEST(Translations, LineFeedsInText) {
  const auto words_of = [](std::u32string_view text, BleuTokenizer tokenizer) {
    std::u32string made;
    std::vector<std::u32string_view> words;
    split_for_bleu(text, tokenizer, made, words);
    std::vector<std::u32string> out(words.begin(), words.end());
    return out;
  };
  using Words = std::vector<std::u32string>;
  EXPECT_EQ(words_of(U"ab-\ncd\nef -\n", BleuTokenizer::mteval_13a), (Words{U"abcd", U"ef", U"-"}));
  EXPECT_EQ(words_of(U"ab-\ncd\nef", BleuTokenizer::none), (Words{U"ab-", U"cd", U"ef"}));
  EXPECT_EQ(words_of(U"ab-\ncd", BleuTokenizer::international), (Words{U"ab", U"-", U"cd"}));
}

// All that Python's str.isspace() says of.
TEST(Translations, WhiteSpace) {
  const std::vector<char32_t> python{0x9,    0xA,    0xB,    0xC,    0xD,    0x1C,   0x1D,   0x1E,   0x1F,   0x20,
                                     0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006,
                                     0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  std::vector<char32_t> ours;
  for (char32_t c = 0; c < 0x110000; ++c)
    if (is_white_space(c)) ours.push_back(c);
  EXPECT_EQ(ours, python);
}

// Against counts in maps.
TEST(Translations, NgramsOfAllOrders) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const int orders = 1 + round % SortedNgrams::most_orders;
    const std::uint32_t largest = orders > 4 ? (1u << 21) - 1 : ~0u;
    const auto drawn = [&] {
      std::vector<std::uint32_t> out(random() % 20);
      for (auto& item : out) item = random() % 3 == 0 ? largest : 1 + random() % 3;
      return out;
    };
    const auto own = drawn();
    const std::vector others{drawn(), drawn(), drawn()};
    SortedNgrams ngrams;
    ngrams.set(own, orders);
    std::vector<SortedNgrams> references(others.size());
    for (std::size_t r = 0; r < others.size(); ++r) references[r].set(others[r], orders);
    for (int order = 1; order <= orders; ++order) {
      using Counts = std::map<std::vector<std::uint32_t>, std::int64_t>;
      const auto counts_of = [&](const std::vector<std::uint32_t>& items) {
        Counts out;
        for (auto at = items.begin(); items.end() - at >= order; ++at) ++out[{at, at + order}];
        return out;
      };
      std::int64_t wanted = 0, all = 0;
      for (const auto& [ngram, count] : counts_of(own)) {
        std::int64_t most = 0;
        for (const auto& other : others) {
          const auto counts = counts_of(other);
          if (const auto found = counts.find(ngram); found != counts.end()) most = std::max(most, found->second);
        }
        wanted += std::min(count, most);
        all += count;
      }
      EXPECT_EQ(ngrams.matches(references, order), wanted) << round << " " << order;
      EXPECT_EQ(ngrams.count(order), all);
    }
  }
}

// The integers of one line whose chrF is 100 or 0: one character, which is right or wrong. The score of a text is then
// the share of right lines.
TEST(Translations, IntervalsOfAShareAreThoseOfTheTheory) {
  constexpr std::size_t lines = 400, right = 120;
  Integers all;
  for (std::size_t i = 0; i < lines; ++i) {
    Integers line(integers_of(Metric::chrf));
    line[0] = line[1] = 1, line[2] = i < right ? 1 : 0;
    all.insert(all.end(), line.begin(), line.end());
  }
  const auto scores = resampled_scores(Metric::chrf, all, {4000, 12345});
  ASSERT_EQ(scores.size(), 4000u);
  const auto interval = interval_of(scores);
  const double share = 0.3, deviation = 100 * std::sqrt(share * (1 - share) / lines);
  EXPECT_NEAR(interval.mean, 100 * share, 6 * deviation / std::sqrt(4000));
  EXPECT_NEAR(interval.half_width(), 1.96 * deviation, 0.1 * deviation + 0.25);  // a line is 0.25
  EXPECT_NEAR(interval.high + interval.low, 200 * share, 0.5);
  EXPECT_EQ(resampled_scores(Metric::chrf, all, {4000, 12345}), scores);
  EXPECT_NE(resampled_scores(Metric::chrf, all, {4000, 1}), scores);
  // The first texts do not depend on how many there are.
  const auto few = resampled_scores(Metric::chrf, all, {10, 12345});
  EXPECT_TRUE(std::equal(few.begin(), few.end(), scores.begin()));
}

// Of two lines, a text has both, or one of them twice: two draws. Of three, three draws.
TEST(Translations, TextsHaveAsManyLines) {
  Integers right(integers_of(Metric::chrf)), all;
  right[0] = right[1] = 1;
  for (const std::size_t lines : {2, 3}) {
    all.insert(all.end(), right.begin(), right.end());
    if (lines == 2) all[2] = 1, all.insert(all.end(), right.begin(), right.end());
    std::map<int, int> times;
    for (const double score : resampled_scores(Metric::chrf, all, {4000, 5}))
      ++times[static_cast<int>(std::lround(score * static_cast<double>(lines) / 100))];
    const double one = 1. / static_cast<double>(lines);
    for (int right_ones = 0; right_ones <= static_cast<int>(lines); ++right_ones) {
      const int ways = right_ones == 0 || right_ones == static_cast<int>(lines) ? 1 : static_cast<int>(lines);
      const double share = ways * std::pow(one, right_ones) * std::pow(1 - one, static_cast<int>(lines) - right_ones);
      EXPECT_NEAR(times[right_ones], 4000 * share, 5 * std::sqrt(4000 * share * (1 - share))) << lines;
    }
    EXPECT_EQ(times.size(), lines + 1);
  }
}

// One of 40 scores is below the interval, one above: with fewer, none is.
TEST(Translations, IntervalsLeaveAFortieth) {
  std::vector<double> scores(80);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<double>((i * 37) % 80);
  EXPECT_EQ(interval_of(scores).low, 2);
  EXPECT_EQ(interval_of(scores).high, 77);
  EXPECT_EQ(interval_of(scores).mean, 39.5);
  scores.resize(39);
  EXPECT_EQ(interval_of(scores).low, *std::min_element(scores.begin(), scores.end()));
  EXPECT_EQ(interval_of(scores).high, *std::max_element(scores.begin(), scores.end()));
}

TEST(Translations, ProbabilitiesOfDifferences) {
  const std::vector<double> a{10, 12, 14, 16}, b{9, 10, 11, 12};  // distances 1, 2, 3, 4; their mean is 2.5
  EXPECT_EQ(p_value_of(a, b, 1), 2. / 5);
  EXPECT_EQ(p_value_of(a, b, -1), 2. / 5);
  EXPECT_EQ(p_value_of(a, b, 1.5), 1. / 5);
  EXPECT_EQ(p_value_of(a, b, 0), 3. / 5);
  EXPECT_EQ(p_value_of(a, a, 0), 1);
}

// sacrebleu draws other random numbers. A mean of n scores has the error half width / 1.96 / sqrt(n); an end of an
// interval about 2.7 times that, so half the difference of two, and of both programs, about 2.7 times that, too.
TEST(Translations, IntervalsAgreeWithSacrebleu) {
  const auto drawn = expected()["drawn"];
  const auto hypotheses = lines_of("drawn.hypothesis"), others = lines_of("drawn.baseline");
  const std::vector<std::vector<std::string>> references{lines_of("drawn.reference-1")};
  ASSERT_EQ(drawn["confidence"].size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto &theirs = drawn["confidence"][i], &pair = drawn["paired"][i];
    const auto rule = rule_of(theirs);
    const Resamples resamples{theirs["samples"], 12345};
    const auto scores = resampled_scores(rule.metric, flat(compared(rule, hypotheses, references)), resamples);
    const auto interval = interval_of(scores);
    const double width = theirs["half_width"], error = width / 1.96 / std::sqrt(1000);
    EXPECT_NEAR(interval.mean, theirs["mean"].get<double>(), 5 * std::sqrt(2) * error);
    EXPECT_NEAR(interval.half_width(), width, 4 * 2.7 * error);
    const auto other_lines = compared(rule, others, references);
    const auto other_scores = resampled_scores(rule.metric, flat(other_lines), resamples);
    const auto difference = score_of(rule.metric, sum_of(compared(rule, hypotheses, references))) -
                            score_of(rule.metric, sum_of(other_lines));
    const double p = pair["p_value"];
    EXPECT_NEAR(p_value_of(scores, other_scores, difference), p, 5 * std::sqrt(2 * p * (1 - p) / 1000));
  }
}

class TextLinesOfFiles : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) {
    spit(scratch.path + "/" + name, content);
    return scratch.path + "/" + name;
  }
  std::vector<std::string> read(const std::string& content) {
    std::vector<std::string> out;
    TextLines lines(file("text", content));
    for (std::string line; lines.next(line);) out.push_back(line);
    EXPECT_EQ(lines.number(), std::ssize(out));
    return out;
  }
  std::string refused(const std::string& content) {
    return refusal_of<base::InputError>([&] { read(content); });
  }
  Scratch scratch;
};

TEST_F(TextLinesOfFiles, LineEndsAndMarks) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(read(""), Lines{});
  EXPECT_EQ(read("\xEF\xBB\xBF"), Lines{});
  EXPECT_EQ(read("\n"), Lines{""});
  EXPECT_EQ(read("\xEF\xBB\xBF\r\n\xEF\xBB\xBFx"), (Lines{"", "\xEF\xBB\xBFx"}));
  EXPECT_EQ(read("a\r\nb\n\nc"), (Lines{"a", "b", "", "c"}));
  EXPECT_EQ(read("a\r\r\n\rb\xE2\x80\xA8"), (Lines{"a\r", "\rb\xE2\x80\xA8"}));
  for (const std::size_t bytes : {65535, 65536, 262143, 262144, 262145, 600000}) {
    const std::string longer(bytes, 'x');
    EXPECT_EQ(read(longer + "\ny\n" + longer + "\n"), (Lines{longer, "y", longer})) << bytes;
    EXPECT_EQ(read(longer), (Lines{longer})) << bytes;
  }
}

TEST_F(TextLinesOfFiles, WhatIsNoText) {
  EXPECT_NE(refused("a\nb\n\xFF\xFEx\n").find("/text, line 3: is no UTF-8"), std::string::npos);
  EXPECT_NE(refused("a\xED\xA0\x80\n").find("line 1: is no UTF-8"), std::string::npos);
  EXPECT_NE(refused("\xC3").find("line 1: is no UTF-8"), std::string::npos);
  EXPECT_NE(refused(std::string("\xFF\xFE\x61\0\x0A\0", 6)).find("is UTF-16 text"), std::string::npos);
  const std::string longest(TextLines::longest_line, 'x');
  EXPECT_EQ(read("a\n" + longest + "\n").size(), 2u);
  EXPECT_NE(refused("a\n" + longest + "x\n").find("line 2: longer than 16 MiB"), std::string::npos);
  EXPECT_NE(refused("a\n" + longest + longest).find("line 2: longer than 16 MiB"), std::string::npos);
}

TEST_F(TextLinesOfFiles, TextsOfDifferentLengths) {
  const auto three = file("three", "a\nb\nc\n"), two = file("two", "a\nb"), none = file("none", "");
  const auto read_all = [](const std::vector<std::string>& paths) {
    return refusal_of<base::InputError>([&] {
      ParallelLines texts(paths);
      for (std::vector<std::string> lines; texts.next(lines);) {}
    });
  };
  EXPECT_NE(read_all({three, two}).find("/three has 3 lines, and "), std::string::npos);
  EXPECT_NE(read_all({three, two}).find("/two has 2 lines"), std::string::npos);
  EXPECT_NE(read_all({two, two, three}).find("/two has 2 lines, and "), std::string::npos);
  EXPECT_NE(read_all({two, none}).find("/none has 0 lines"), std::string::npos);
  EXPECT_NE(read_all({none, none}).find("/none holds no line"), std::string::npos);
  EXPECT_EQ(read_all({two, two}), "");
  EXPECT_NE(refusal_of<base::UsageError>([] { ParallelLines({"-", "-"}); }), "");
}

}  // namespace translations_test
