// Tests span corruption: lengths that T5 has, every draw against a second implementation in Python, that no token is
// lost, how spans are distributed, and refusals.
#include "tests/data/denoising_golden.h"
#include "tests/data/sample.h"
#include "tests/refusal.h"

#include "libtrain/base/error.h"
#include "libtrain/data/span_corruption.h"

#include <cmath>
#include <map>
#include <numeric>

namespace {

using namespace sample;
using denoising_golden::Tokens;

data::SpanCorruption corruption_of_t5(std::int64_t sentinels = 100) {
  return {{3, 20}, {3, 1}, data::last_ids(32100, sentinels), 1};
}

struct Corrupted {
  Tokens inputs, targets;
  bool operator==(const Corrupted&) const = default;
};

Corrupted corrupt(const data::SpanCorruption& rule, const data::SampleKey& key, const Tokens& tokens) {
  const auto counts = data::span_counts(rule, std::ssize(tokens));
  Corrupted out{Tokens(static_cast<std::size_t>(counts.inputs), -7),
                Tokens(static_cast<std::size_t>(counts.targets), -7)};
  EXPECT_EQ(data::corrupt_spans(rule, key, tokens, {out.inputs.data(), out.targets.data()}), counts);
  return out;
}

// Puts the spans of the targets where their sentinels are in the inputs.
Tokens merged(const data::SpanCorruption& rule, const Corrupted& c) {
  std::map<std::int32_t, Tokens> spans;
  std::int32_t open = -1;
  for (const auto t : c.targets) {
    if (std::find(rule.sentinels.begin(), rule.sentinels.end(), t) != rule.sentinels.end()) open = t, spans[t];
    else if (t != rule.end) spans[open].push_back(t);
  }
  Tokens out;
  for (const auto t : c.inputs) {
    if (const auto span = spans.find(t); span != spans.end())
      out.insert(out.end(), span->second.begin(), span->second.end());
    else if (t != rule.end) out.push_back(t);
  }
  return out;
}

Tokens counted_up(std::int64_t n) {
  Tokens out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 2);
  return out;
}

}  // namespace

// What seqio computes for rows of inputs (random_spans_helper).
TEST(SpanCorruption, RowsHaveTheLengthsOfT5) {
  const std::int64_t rows[][3] = {{64, 70, 14},    {128, 141, 29},    {256, 284, 58},
                                  {512, 568, 114}, {1024, 1137, 229}, {2048, 2274, 456}};
  for (const auto& [row, tokens, targets] : rows) {
    const auto c = data::tokens_for_inputs(corruption_of_t5(), row);
    EXPECT_EQ(c.tokens, tokens) << row;
    EXPECT_EQ(c.targets, targets) << row;
    EXPECT_EQ(c.inputs, row);
    EXPECT_EQ(c, data::span_counts(corruption_of_t5(), tokens));
    EXPECT_GT(data::span_counts(corruption_of_t5(), tokens + 1).inputs, row);
  }
}

TEST(SpanCorruption, InputsNeverGetShorterWithMoreTokens) {
  for (const base::Fraction rate : {base::Fraction{3, 20}, {1, 2}, {9, 10}, {1, 1000}, {999, 1000}})
    for (const base::Fraction mean : {base::Fraction{3, 1}, {1, 1}, {5, 2}, {32, 1}}) {
      const data::SpanCorruption rule{rate, mean, {}, 1};
      std::int64_t before = 0;
      for (std::int64_t n = 2; n < 700; ++n) {
        const auto c = data::span_counts(rule, n);
        ASSERT_GE(c.inputs, before);
        ASSERT_TRUE(c.noise >= 1 && c.noise < n && c.spans >= 1 && c.spans <= c.noise && c.spans <= n - c.noise);
        ASSERT_EQ(c.inputs + c.targets, n + 2 * c.spans + 2);
        before = c.inputs;
      }
      for (std::int64_t row = 3; row < 200; ++row) {
        const auto c = data::tokens_for_inputs(rule, row);
        ASSERT_LE(c.inputs, row);
        ASSERT_GT(data::span_counts(rule, c.tokens + 1).inputs, row);
      }
    }
}

TEST(SpanCorruption, IsTheSecondImplementation) {
  const auto golden = denoising_golden::all();
  ASSERT_GE(golden.at("spans").size(), 10u);
  for (const auto& c : golden.at("spans")) {
    const data::SpanCorruption rule{denoising_golden::fraction(c.at("rate")), denoising_golden::fraction(c.at("mean")),
                                    data::last_ids(32100, 100), 1};
    const Corrupted expected{c.at("inputs"), c.at("targets")};
    EXPECT_EQ(corrupt(rule, denoising_golden::key_of(c), c.at("tokens")), expected)
        << c.at("rate") << " of " << c.at("tokens").size();
  }
}

TEST(SpanCorruption, EveryTokenIsThereOnce) {
  for (const base::Fraction rate : {base::Fraction{3, 20}, {1, 2}, {4, 5}})
    for (std::uint64_t sample = 0; sample < 200; ++sample) {
      const data::SpanCorruption rule{rate, {3, 1}, data::last_ids(32100, 100), 1};
      const auto tokens = counted_up(2 + static_cast<std::int64_t>(sample));
      const auto c = corrupt(rule, data::SampleKey::of_training(3, sample), tokens);
      ASSERT_EQ(merged(rule, c), tokens) << sample;
      ASSERT_EQ(c.inputs.front(), tokens.front()) << "the first span is clean";
      ASSERT_EQ(c.targets.front(), 32099);
      ASSERT_TRUE(c.inputs.back() == 1 && c.targets.back() == 1);
      ASSERT_EQ(c.targets[c.targets.size() - 2], tokens.back()) << "the last span is noise";
    }
}

// Of 20 tokens 6 are noise in 3 spans: 10 lists of lengths of noise, 78 of clean spans, each equally likely.
TEST(SpanCorruption, EveryDivisionIsEquallyLikely) {
  const data::SpanCorruption rule{{3, 10}, {2, 1}, data::last_ids(32100, 3), 1};
  ASSERT_EQ(data::span_counts(rule, 20).spans, 3);
  std::map<std::vector<int>, int> noise, clean;
  constexpr int samples = 20'000;
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    const auto c = corrupt(rule, data::SampleKey::of_training(11, sample), counted_up(20));
    const auto lengths = [](const Tokens& side) {
      std::vector<int> out;
      for (int run = 0; const auto t : side) {
        if (t >= 32000 || t == 1) out.push_back(run), run = 0;
        else ++run;
      }
      return out;
    };
    ++noise[lengths(c.targets)], ++clean[lengths(c.inputs)];
  }
  ASSERT_EQ(noise.size(), 10u);
  ASSERT_EQ(clean.size(), 78u);
  for (const auto* counts : {&noise, &clean}) {
    const double expected = static_cast<double>(samples) / static_cast<double>(counts->size());
    double chi = 0;
    for (const auto& [lengths, count] : *counts) chi += (count - expected) * (count - expected) / expected;
    const auto freedom = static_cast<double>(counts->size() - 1);
    EXPECT_LT(chi, freedom + 4 * std::sqrt(2 * freedom));
  }
}

TEST(SpanCorruption, TheKeyDecides) {
  const auto rule = corruption_of_t5();
  const auto tokens = counted_up(300);
  const auto one = corrupt(rule, data::SampleKey::of_training(1, 5), tokens);
  EXPECT_EQ(one, corrupt(rule, data::SampleKey::of_training(1, 5), tokens));
  EXPECT_NE(one, corrupt(rule, data::SampleKey::of_training(1, 6), tokens));
  EXPECT_NE(one, corrupt(rule, data::SampleKey::of_training(2, 5), tokens));
  EXPECT_NE(corrupt(rule, data::SampleKey::of_evaluation(5), tokens),
            corrupt(rule, data::SampleKey::of_training(0, 5), tokens));
}

TEST(SpanCorruption, RefusesWhatIsNotPossible) {
  using trainyard::testing::refusal_of;
  const auto rule = corruption_of_t5();
  EXPECT_NE(refusal_of<base::InputError>([&] { data::span_counts(rule, 1); }).find("1 token is too short"),
            std::string::npos);
  EXPECT_NE(refusal_of<base::UsageError>([&] { data::tokens_for_inputs(rule, 2); }).find("too short"),
            std::string::npos);
  const auto few = refusal_of<base::UsageError>([&] { corrupt(rule, {}, counted_up(2274)); });
  EXPECT_NE(few.find("2274 tokens hides 114 spans"), std::string::npos) << few;
  EXPECT_NE(few.find("there are 100 sentinels"), std::string::npos) << few;
  data::require_sentinels(rule, 568);
  for (const base::Fraction rate : {base::Fraction{1, 1}, {3, 2}, {0, 1}})
    refusal_of<base::UsageError>([&] { data::span_counts({rate, {3, 1}, {}, 1}, 100); });
  refusal_of<base::UsageError>([&] { data::span_counts({{3, 20}, {1, 2}, {}, 1}, 100); });
}

TEST(SpanCorruption, SentinelsAreFoundByName) {
  class Named : public Numbers {
   public:
    Named(std::string before, int count) : Numbers(1000), before_(std::move(before)), count_(count) {}
    std::int32_t token_named(std::string_view name) const override {
      for (int i = 0; i < count_; ++i)
        if (name == before_ + "<extra_id_" + std::to_string(i) + ">") return 900 - i;
      return -1;
    }

   private:
    std::string before_;
    int count_;
  };
  EXPECT_EQ(data::named_sentinels(Named("", 3)), (Tokens{900, 899, 898}));
  EXPECT_EQ(data::named_sentinels(Named("\xE2\x96\x81", 2)), (Tokens{900, 899}));
  EXPECT_TRUE(data::named_sentinels(Numbers(1000)).empty());
  EXPECT_EQ(data::last_ids(32100, 100).front(), 32099);
  EXPECT_EQ(data::last_ids(32100, 100).back(), 32000);
}

TEST(SpanCorruption, SentinelsOfASet) {
  using trainyard::testing::refusal_of;
  data::SetIndex bytes;
  bytes.vocabulary = 257, bytes.end_of_document = 256;
  const auto named = refusal_of<base::InputError>([&] { data::sentinels_of("set", bytes); });
  EXPECT_NE(named.find("has no sentinel <extra_id_0>"), std::string::npos) << named;
  const auto end = refusal_of<base::UsageError>([&] { data::sentinels_of("set", bytes, {100}); });
  EXPECT_NE(end.find("256 of them is a token around documents"), std::string::npos) << end;
  bytes.tokenizer = bytes.tokenizer_source = "gone.model";
  refusal_of<base::InputError>([&] { data::sentinels_of("set", bytes); });
  bytes.vocabulary = 32100, bytes.end_of_document = 1;
  EXPECT_EQ(data::sentinels_of("set", bytes, {100}), data::last_ids(32100, 100));
  bytes.vocabulary = 32000;
  EXPECT_EQ(data::sentinels_of("set", bytes, {100, 32100}), data::last_ids(32100, 100));
}
