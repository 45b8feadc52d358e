// Tests texts as sources and targets: every token once in an epoch, rows against the rules, keys of training and
// evaluation, ids of sentinels and masks, refusals, and a mixture with pairs.
#include "tests/data/pair_sample.h"
#include "tests/refusal.h"

#include "libtrain/base/error.h"
#include "libtrain/data/corrupted_windows.h"
#include "libtrain/data/masking.h"
#include "libtrain/data/mixed_windows.h"
#include "libtrain/data/pair_windows.h"

#include <algorithm>
#include <numeric>

namespace corrupted_windows_test {

using namespace pair_sample;
using data::CorruptedWindows;
using data::Denoising;
using data::Order;
using trainyard::testing::refusal_of;

constexpr std::int32_t start = 4321, mask = 5000;

data::RowOptions rows(std::int64_t sequence, std::int64_t source_sequence, Order order = Order::keyed,
                      std::uint64_t seed = 3) {
  return {.sequence = sequence, .source_sequence = source_sequence, .order = order, .seed = seed, .start = start};
}

class CorruptedText : public ::testing::Test {
 protected:
  CorruptedText() {
    index = write_set(scratch.path, tokenizer, documents(tokenizer, 200, 40), 1500);
    spans.sentinels = data::last_ids(5100, 100), spans.end = tokenizer.end_of_document();
    infilling.mask_token = mask, infilling.end = tokenizer.end_of_document();
  }
  CorruptedWindows open(const Denoising& rule, const data::RowOptions& options) {
    return {scratch.path, index, index.train, options, rule};
  }
  // The text of each sample of the first two epochs.
  std::vector<Document> texts(std::int64_t tokens, Order order = Order::keyed, std::uint64_t seed = 3) {
    data::WindowDataset windows(scratch.path, index, index.train,
                                {.sequence = tokens, .mask = data::DocumentMask::off, .order = order, .seed = seed});
    const auto n = static_cast<std::size_t>(tokens);
    std::vector<Document> out;
    Document of(n), room(3 * n);
    std::vector<std::uint8_t> weights(n);
    for (std::uint64_t i = 0; i < 2 * windows.count(); ++i) {
      windows.fill(i, {of.data(), room.data(), room.data() + n, room.data() + 2 * n, weights.data()});
      out.push_back(of);
    }
    return out;
  }
  // What is hidden behind each sentinel of a row, put in its place; neither rule nor counts are asked.
  Document merged(const Row& row) const {
    const auto is_sentinel = [](auto t) { return t >= 5000; };
    Document out;
    auto hidden = row.targets.begin();
    for (const auto t : Document(row.source.begin(), row.source.begin() + row.seen_end[0] - 1)) {
      if (!is_sentinel(t)) {
        out.push_back(t);
        continue;
      }
      EXPECT_EQ(*hidden, t);
      for (++hidden; !is_sentinel(*hidden) && hidden + 1 < row.targets.begin() + row.key_end[0]; ++hidden)
        out.push_back(*hidden);
    }
    EXPECT_EQ(*hidden, tokenizer.end_of_document());
    return out;
  }

  Scratch scratch;
  const Numbers tokenizer{5000};
  data::SetIndex index;
  data::SpanCorruption spans;
  data::TextInfilling infilling;
};

// One pair in a row of T targets and S sources, place by place.
void expect_row(const Row& row, const Document& source, const Document& target, std::int32_t end) {
  const auto T = row.tokens.size(), S = row.source.size();
  Row expected(static_cast<std::int64_t>(T), static_cast<std::int64_t>(S));
  const auto number = [](std::size_t n) { return static_cast<std::int32_t>(n); };
  for (std::size_t t = 0; t < T; ++t) {
    const bool in = t < target.size();
    expected.targets[t] = in ? target[t] : end;
    expected.tokens[t] = in && t > 0 ? target[t - 1] : start;
    expected.positions[t] = in ? number(t) : 0;
    expected.starts[t] = in ? 0 : number(t);
    expected.key_end[t] = in ? number(target.size()) : number(t + 1);
    expected.seen_begin[t] = in ? 0 : number(S - 1);
    expected.seen_end[t] = in ? number(source.size()) : number(S);
    expected.weights[t] = in ? 1 : 0;
  }
  for (std::size_t s = 0; s < S; ++s) {
    const bool in = s < source.size();
    expected.source[s] = in ? source[s] : end;
    expected.source_positions[s] = in ? number(s) : 0;
    expected.source_begin[s] = in ? 0 : number(s);
    expected.source_end[s] = in ? number(source.size()) : number(s + 1);
  }
  ASSERT_EQ(row, expected);
}

TEST_F(CorruptedText, SpansOfEachWindowAreHiddenAndNoTokenIsLost) {
  for (const auto& [T, S] : std::vector<std::pair<std::int64_t, std::int64_t>>{{29, 128}, {64, 128}, {40, 63}}) {
    auto set = open(spans, rows(T, S));
    const auto n = data::tokens_for_inputs(spans, S).tokens;
    EXPECT_EQ(set.lengths().tokens, n);
    const auto text = texts(n);
    ASSERT_EQ(text.size(), 2 * set.count());
    for (std::uint64_t i = 0; i < text.size(); ++i) {
      const auto row = row_at(set, i);
      ASSERT_EQ(merged(row), text[i]) << i;
      const auto counts = data::span_counts(spans, n);
      Document source(static_cast<std::size_t>(counts.inputs)), target(static_cast<std::size_t>(counts.targets));
      data::corrupt_spans(spans, data::SampleKey::of_training(3, i), text[i], {source.data(), target.data()});
      expect_row(row, source, target, tokenizer.end_of_document());
    }
  }
}

TEST_F(CorruptedText, LengthsAreThoseOfT5) {
  EXPECT_EQ(data::denoised_lengths(spans, 114, 512), (data::DenoisedLengths{568, 512, 114}));
  EXPECT_EQ(data::denoised_lengths(spans, 512, 512), (data::DenoisedLengths{568, 512, 114}));
  EXPECT_EQ(data::denoised_lengths(infilling, 512, 512), (data::DenoisedLengths{511, 512, 512}));
  EXPECT_EQ(data::denoised_lengths(infilling, 512, 300), (data::DenoisedLengths{299, 300, 300}));
  EXPECT_EQ(data::denoised_lengths(infilling, 2, 512), (data::DenoisedLengths{1, 2, 2}));
}

TEST_F(CorruptedText, MaskedTextIsTheTargetInOrder) {
  for (const auto& [T, S] : std::vector<std::pair<std::int64_t, std::int64_t>>{{50, 50}, {40, 90}, {90, 40}}) {
    auto set = open(infilling, rows(T, S));
    const auto n = std::min(T, S) - 1;
    EXPECT_EQ(set.lengths().tokens, n);
    const auto text = texts(n);
    const data::TextInfiller infiller(infilling);
    for (std::uint64_t i = 0; i < text.size(); ++i) {
      const auto row = row_at(set, i);
      auto target = text[i];
      target.push_back(tokenizer.end_of_document());
      Document source(static_cast<std::size_t>(n + 1)), again(static_cast<std::size_t>(n + 1));
      const auto made = infiller.fill(data::SampleKey::of_training(3, i), text[i], {source.data(), again.data()});
      source.resize(static_cast<std::size_t>(made.inputs));
      EXPECT_GT(std::count(source.begin(), source.end(), mask), 0);
      expect_row(row, source, target, tokenizer.end_of_document());
    }
  }
}

TEST_F(CorruptedText, EpochsHideOtherTokensAndEvaluationsTheSame) {
  for (const Denoising& rule : {Denoising(spans), Denoising(infilling)}) {
    auto keyed = open(rule, rows(64, 64)), stored = open(rule, rows(64, 64, Order::as_stored)),
         other = open(rule, rows(64, 64, Order::as_stored, 99));
    const auto n = static_cast<std::uint64_t>(keyed.count());
    ASSERT_GT(n, 20u);
    for (std::uint64_t i = 0; i < n; ++i) {
      // An evaluation depends on the window alone.
      ASSERT_EQ(row_at(stored, i), row_at(stored, i + n));
      ASSERT_EQ(row_at(stored, i), row_at(other, i));
      // Training depends on the sample.
      Row as(64, 64);
      keyed.fill_as(i, i + 1000, as.pointers());
      ASSERT_NE(row_at(keyed, i), as);
      stored.fill_as(i, i + 1000, as.pointers());
      ASSERT_EQ(row_at(stored, i), as);
    }
  }
  auto stored = open(spans, rows(64, 64, Order::as_stored));
  const auto text = texts(stored.lengths().tokens, Order::as_stored);
  for (std::uint64_t i = 0; i < stored.count(); ++i) {
    const auto row = row_at(stored, i);
    ASSERT_EQ(merged(row), text[i]);
    Document source(64), target(64);
    const auto counts =
        data::corrupt_spans(spans, data::SampleKey::of_evaluation(i), text[i], {source.data(), target.data()});
    source.resize(static_cast<std::size_t>(counts.inputs)), target.resize(static_cast<std::size_t>(counts.targets));
    expect_row(row, source, target, tokenizer.end_of_document());
  }
}

TEST_F(CorruptedText, WhatDoesNotFitIsRefusedWithNumbers) {
  const auto refused = [&](const Denoising& rule, std::int64_t T, std::int64_t S) {
    return refusal_of<base::UsageError>([&] { open(rule, rows(T, S)); });
  };
  EXPECT_EQ(refused(spans, 113, 512),
            "span corruption makes sources of 512 tokens out of 568 tokens of text, with "
            "targets of 114, and --sequence is 113");
  EXPECT_EQ(refused(spans, 14, 64), "");
  EXPECT_NE(refused(spans, 64, 2), "");
  auto few = spans;
  few.sentinels.resize(2);
  EXPECT_NE(refused(few, 64, 64).find("hides 3 spans"), std::string::npos) << refused(few, 64, 64);
  EXPECT_EQ(refused(infilling, 2, 2), "");
  EXPECT_NE(refused(infilling, 1, 64).find("text infilling in sources of 64 and targets of 1 token"),
            std::string::npos);
  EXPECT_NE(refused(infilling, 64, 0), "");
  auto wrong = infilling;
  wrong.rate = {3, 2};
  EXPECT_NE(refused(wrong, 64, 64), "");
  spans.sentinels = data::last_ids(7000, 1000);
  const auto too_long = refusal_of<base::InputError>([&] { open(spans, rows(3000, 3000)); });
  EXPECT_NE(too_long.find("none holds a window"), std::string::npos) << too_long;
}

TEST_F(CorruptedText, TheTargetAloneIsFilledWithoutASource) {
  for (const Denoising& rule : {Denoising(spans), Denoising(infilling)}) {
    auto set = open(rule, rows(64, 64));
    for (std::uint64_t i = 0; i < set.count(); ++i) {
      const auto expected = row_at(set, i);
      Row row(64, 64);
      auto pointers = row.pointers();
      pointers.source = {};
      set.fill(i, pointers);
      ASSERT_EQ(row.targets, expected.targets);
      ASSERT_EQ(row.weights, expected.weights);
      ASSERT_EQ(row.source, Document(64, -7));
    }
  }
}

TEST(DenoisingOfASet, NewIdsLieBehindTheVocabulary) {
  Scratch scratch;
  data::SetIndex bytes;
  bytes.vocabulary = 257, bytes.end_of_document = 256;
  const auto spans = data::span_corruption_of(scratch.path, bytes);
  ASSERT_EQ(spans.sentinels.size(), 100u);
  EXPECT_EQ(spans.sentinels.front(), 356);
  EXPECT_EQ(spans.sentinels.back(), 257);
  EXPECT_EQ(spans.end, 256);
  EXPECT_EQ(spans.rate, (base::Fraction{3, 20}));
  EXPECT_EQ(data::vocabulary_of(spans, bytes), 357);
  EXPECT_EQ(data::added_ids_text(spans, bytes), " and no sentinels, which get the ids 257 to 356");
  const auto infilling = data::text_infilling_of(scratch.path, bytes);
  EXPECT_EQ(infilling.mask_token, 257);
  EXPECT_EQ(infilling.end, 256);
  EXPECT_EQ(data::vocabulary_of(infilling, bytes), 258);
  EXPECT_EQ(data::added_ids_text(infilling, bytes), " and no mask token, which gets the id 257");
  // The ids of T5, whose tokenizer has 32,000 pieces.
  data::SetIndex t5;
  t5.tokenizer = t5.tokenizer_source = "gone.model";
  t5.vocabulary = 32000, t5.end_of_document = 1;
  EXPECT_EQ(data::span_corruption_of(scratch.path, t5).sentinels, data::last_ids(32100, 100));
}

TEST(DenoisingOfASet, TokensOfTheTokenizerAreTaken) {
  const auto index_of = [](const std::string& path) {
    auto index = data::index_for(*data::make_tokenizer(path));
    index.tokenizer_source = path;
    return index;
  };
  const auto t5 = index_of(GOLDEN_TOKENIZERS "/kinds/t5.json"),
             albert = index_of(GOLDEN_TOKENIZERS "/kinds/albert.json");
  const auto spans = data::span_corruption_of("", t5);
  EXPECT_EQ(spans.sentinels, (Document{420, 421, 422}));
  EXPECT_EQ(data::vocabulary_of(spans, t5), t5.vocabulary);
  EXPECT_EQ(data::added_ids_text(spans, t5), "");
  const auto infilling = data::text_infilling_of("", albert);
  EXPECT_EQ(infilling.mask_token, data::mask_token_of("", albert));
  EXPECT_LT(infilling.mask_token, albert.vocabulary);
  EXPECT_EQ(data::vocabulary_of(infilling, albert), albert.vocabulary);
  EXPECT_EQ(data::added_ids_text(infilling, albert), "");
  EXPECT_EQ(data::vocabulary_of(data::span_corruption_of("", albert), albert), albert.vocabulary + 100);
}

// Translation and denoising in turns: every sequence is the next one of its set, and what is hidden depends on the
// sequence.
TEST_F(CorruptedText, PairsAndTextAlternate) {
  Scratch other;
  const auto all = pairs(tokenizer, 100, 20);
  const auto of_pairs = write_pairs(other.path, tokenizer, all, 1000);
  data::PairWindows translation(other.path, of_pairs, of_pairs.train, rows(64, 64));
  auto text = open(spans, rows(64, 64));
  data::MixedWindows mixed({&translation, &text}, data::Mixture({1, 2}, 5, 4));
  EXPECT_EQ(mixed.sequence(), 64);
  EXPECT_EQ(mixed.source_sequence(), 64);
  std::vector<std::uint64_t> next(2);
  const auto n = 6 * (translation.count() + text.count());
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto set = mixed.mixture().of(i).set;
    Row expected(64, 64);
    if (set == 0) translation.fill(next[0]++, expected.pointers());
    else text.fill_as(next[1]++, i, expected.pointers());
    ASSERT_EQ(row_at(mixed, i), expected) << i;
    ASSERT_EQ(set, mixed.mixture().of(i / 4 * 4).set) << i;
  }
  EXPECT_GT(next[0], translation.count());
  EXPECT_GT(next[1], text.count());
  data::ConsecutiveWindows both({&translation, &text}, {3, 2});
  EXPECT_EQ(both.source_sequence(), 64);
  for (std::uint64_t i = 0; i < 5; ++i)
    EXPECT_EQ(row_at(both, i), i < 3 ? row_at(translation, i) : row_at(text, i - 3));
}

// Their tokens are numbers without a text.
TEST_F(CorruptedText, SentencesNeedTheTokenizerOfTheSet) {
  const auto said = refusal_of<trainyard::base::InputError>([&] { data::sentence_ends_of_set(scratch.path, index); });
  EXPECT_NE(said.find("sentences can be found only with the set's tokenizer"), std::string::npos) << said;
}

}  // namespace corrupted_windows_test
