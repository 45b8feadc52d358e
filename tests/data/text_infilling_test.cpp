// Tests text infilling: every draw against a second implementation in Python, lengths of spans against the Poisson
// distribution, shares, sentences, and refusals.
#include "tests/data/denoising_golden.h"
#include "tests/data/sample.h"

#include "libtrain/base/error.h"
#include "libtrain/data/text_infilling.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace {

using namespace sample;
using denoising_golden::Tokens;

struct Infilled {
  Tokens inputs, targets;
  std::int64_t masked = 0, spans = 0;
};

constexpr std::int32_t mask_id = 5000, end_id = 1;

data::TextInfilling infilling_of_mbart() { return {{7, 20}, 3.5, mask_id, end_id, {}}; }

Infilled infill(const data::TextInfiller& infiller, const data::SampleKey& key, const Tokens& tokens) {
  Infilled out{Tokens(tokens.size() + 1, -7), Tokens(tokens.size() + 1, -7)};
  const auto counts = infiller.fill(key, tokens, {out.inputs.data(), out.targets.data()});
  EXPECT_LE(counts.inputs, counts.targets);
  out.inputs.resize(static_cast<std::size_t>(counts.inputs));
  out.targets.resize(static_cast<std::size_t>(counts.targets));
  out.masked = counts.masked, out.spans = counts.spans;
  return out;
}

Tokens upwards(std::int64_t n) {
  Tokens out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 2);
  return out;
}

std::vector<std::uint8_t> ends_at(const std::vector<std::int32_t>& tokens) {
  std::vector<std::uint8_t> out(5000, 0);
  for (const auto t : tokens) out[static_cast<std::size_t>(t)] = 1;
  return out;
}

}  // namespace

TEST(TextInfilling, IsTheSecondImplementation) {
  const auto golden = denoising_golden::all();
  ASSERT_GE(golden.at("infilling").size(), 8u);
  for (const auto& c : golden.at("infilling")) {
    data::TextInfilling rule{denoising_golden::fraction(c.at("rate")), c.at("mean").get<double>(), 902, 1, {}};
    if (!c.at("sentence_ends").empty()) rule.sentence_ends = ends_at(c.at("sentence_ends"));
    const auto made = infill(data::TextInfiller(rule), denoising_golden::key_of(c), c.at("tokens"));
    EXPECT_EQ(made.inputs, c.at("inputs").get<Tokens>()) << c.at("rate") << " of " << c.at("tokens").size();
    EXPECT_EQ(made.targets, c.at("targets").get<Tokens>());
  }
}

TEST(TextInfilling, LengthsAreThoseOfPoisson) {
  const auto golden = denoising_golden::all();
  ASSERT_EQ(golden.at("poisson").size(), 6u);
  for (const auto& c : golden.at("poisson")) {
    const double mean = c.at("mean");
    const data::PoissonLengths lengths(mean);
    const auto expected = c.at("thresholds").get<std::vector<std::uint64_t>>();
    ASSERT_EQ((std::vector<std::uint64_t>(lengths.thresholds().begin(), lengths.thresholds().end())), expected) << mean;
    double sum = 0, weight = std::exp(-mean);  // the distribution's own formula
    for (std::size_t k = 0; k < expected.size(); ++k) {
      sum += weight, weight *= mean / static_cast<double>(k + 1);
      EXPECT_NEAR(static_cast<double>(expected[k]) * 0x1p-32, sum, 1e-9) << mean << " " << k;
      if (k > 0 && expected[k] > expected[k - 1]) {
        EXPECT_EQ(lengths(expected[k - 1]), static_cast<std::int64_t>(k));
      }
      if (expected[k] > 0) {
        EXPECT_LE(lengths(expected[k] - 1), static_cast<std::int64_t>(k));
      }
    }
  }
}

TEST(TextInfilling, TheRestStaysInItsOrder) {
  const data::TextInfiller infiller(infilling_of_mbart());
  for (std::uint64_t sample = 0; sample < 300; ++sample) {
    const auto tokens = upwards(1 + static_cast<std::int64_t>(sample));
    const auto made = infill(infiller, data::SampleKey::of_training(1, sample), tokens);
    ASSERT_EQ(made.masked, (7 * std::ssize(tokens) + 19) / 20);
    Tokens rest;
    std::copy_if(made.inputs.begin(), made.inputs.end() - 1, std::back_inserter(rest),
                 [](auto t) { return t != mask_id; });
    ASSERT_EQ(std::ssize(rest), std::ssize(tokens) - made.masked);
    ASSERT_TRUE(std::is_sorted(rest.begin(), rest.end()));
    ASSERT_EQ(std::count(made.inputs.begin(), made.inputs.end(), mask_id), made.spans);
    ASSERT_EQ(made.inputs.back(), end_id);
    auto expected = tokens;
    expected.push_back(end_id);
    ASSERT_EQ(made.targets, expected);
  }
}

// Masks between tokens that both stay hide nothing, and there are as many as a length of 0 is likely.
TEST(TextInfilling, SpansAreLongAndShort) {
  const data::TextInfiller infiller(infilling_of_mbart());
  std::int64_t spans = 0, masked = 0, first = 0, last = 0;
  constexpr std::uint64_t samples = 2000;
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    const auto made = infill(infiller, data::SampleKey::of_training(9, sample), upwards(2000));
    spans += made.spans, masked += made.masked;
    first += made.inputs.front() == mask_id, last += made.inputs[made.inputs.size() - 2] == mask_id;
  }
  EXPECT_NEAR(static_cast<double>(masked) / static_cast<double>(spans), 3.5, 0.02);
  // Anywhere also means at both ends: 200 spans among 1500 places.
  EXPECT_NEAR(static_cast<double>(first) / samples, 200.0 / 1500, 0.03);
  EXPECT_NEAR(static_cast<double>(last) / samples, 200.0 / 1500, 0.03);
}

TEST(TextInfilling, SentencesAreShuffledWhole) {
  auto rule = infilling_of_mbart();
  rule.rate = {1, 1'000'000'000};  // one token of a sequence
  rule.sentence_ends = ends_at({4, 8, 9});
  const data::TextInfiller infiller(rule);
  const Tokens text{2, 3, 4, 5, 6, 7, 8, 9, 10, 11};  // 2 3 4 | 5 6 7 8 | 9 | 10 11
  std::map<std::vector<int>, int> orders;
  constexpr int samples = 4800;
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    const auto made = infill(infiller, data::SampleKey::of_training(2, sample), text);
    ASSERT_EQ(made.masked, 1);
    std::vector<int> order;  // of the sentences that are seen
    const std::vector<std::set<int>> sentences{{2, 3, 4}, {5, 6, 7, 8}, {9}, {10, 11}};
    for (const auto t : made.inputs)
      for (int s = 0; s < 4; ++s)
        if (sentences[static_cast<std::size_t>(s)].contains(t) && (order.empty() || order.back() != s))
          order.push_back(s);
    if (order.size() == 4) ++orders[order];
    else ASSERT_EQ(order.size(), 3u) << "a sentence of one token may be hidden";
  }
  ASSERT_EQ(orders.size(), 24u);
  double total = 0, chi = 0;
  for (const auto& [order, count] : orders) total += count;
  for (const auto& [order, count] : orders) chi += (count - total / 24) * (count - total / 24) / (total / 24);
  EXPECT_LT(chi, 23 + 4 * std::sqrt(2 * 23.0));
}

TEST(TextInfilling, OddCases) {
  auto rule = infilling_of_mbart();
  rule.rate = {1, 1};
  const auto all = infill(data::TextInfiller(rule), {}, upwards(50));
  EXPECT_EQ(all.masked, 50);
  EXPECT_EQ(std::count(all.inputs.begin(), all.inputs.end(), mask_id) + 1, std::ssize(all.inputs));
  // Short spans make many masks, but inputs never longer than targets.
  rule.mean_span = 0.5;
  for (std::uint64_t sample = 0; sample < 200; ++sample) {
    const auto made = infill(data::TextInfiller(rule), {1, sample}, upwards(40));
    ASSERT_LE(made.inputs.size(), 41u);
    ASSERT_EQ(made.masked, 40);
  }
  const auto one = infill(data::TextInfiller(infilling_of_mbart()), {}, {42});
  EXPECT_EQ(one.inputs, (Tokens{mask_id, end_id}));
  EXPECT_EQ(one.targets, (Tokens{42, end_id}));
}

TEST(TextInfilling, RefusesWhatIsNotPossible) {
  for (const double mean : {0.0, 0.4, 65.0, -1.0, std::nan("")})
    EXPECT_THROW(data::TextInfiller({{7, 20}, mean, 0, 0, {}}), base::UsageError) << mean;
  for (const base::Fraction rate : {base::Fraction{0, 1}, {21, 20}})
    EXPECT_THROW(data::TextInfiller({rate, 3.5, 0, 0, {}}), base::UsageError);
  EXPECT_THROW(infill(data::TextInfiller(infilling_of_mbart()), {}, {}), base::InputError);
}

TEST(TextInfilling, SentencesEndWithTheirMarks) {
  for (const char* text :
       {".", " end.", "Oh!", "why?)", "so.\"", "wait\u2026", "\u3002", "\u597d\uff01\u300d", "? ", "\u0964"})
    EXPECT_TRUE(data::ends_sentence(text)) << text;
  for (const char* text : {"", " ", ")", "a", ".5", "a.b", ",", ":", "\"", "\u3001"})
    EXPECT_FALSE(data::ends_sentence(text)) << text;
  const auto bytes = data::sentence_ends_of(*data::make_tokenizer("bytes"));
  ASSERT_EQ(bytes.size(), 257u);
  for (std::size_t byte = 0; byte < bytes.size(); ++byte)
    EXPECT_EQ(bytes[byte] == 1, byte == '.' || byte == '!' || byte == '?') << byte;
}
