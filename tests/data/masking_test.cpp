// Tests what is hidden in a window: every draw against a second implementation, counts against the rates, whole words,
// and the keys that decide.
#include "tests/data/sample.h"

#include "libtrain/base/error.h"
#include "libtrain/data/masking.h"
#include "libtrain/data/window_dataset.h"

#include <cmath>
#include <map>
#include <numeric>
#include <set>

using namespace sample;

namespace {

// A second implementation of Philox 4x32-10, by the paper's round function.
struct Philox {
  std::uint32_t x[4];
  Philox(std::uint64_t key, std::uint64_t low, std::uint64_t high)
      : x{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32), static_cast<std::uint32_t>(high),
          static_cast<std::uint32_t>(high >> 32)} {
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int r = 0; r < 10; ++r, k0 += 2654435769u, k1 += 3144134277u) {
      const std::uint64_t a = std::uint64_t{x[0]} * 3528531795u, b = std::uint64_t{x[2]} * 3449720151u;
      const std::uint32_t next[4] = {static_cast<std::uint32_t>(b >> 32) ^ x[1] ^ k0, static_cast<std::uint32_t>(b),
                                     static_cast<std::uint32_t>(a >> 32) ^ x[3] ^ k1, static_cast<std::uint32_t>(a)};
      for (int i = 0; i < 4; ++i) x[i] = next[i];
    }
  }
};

// FNV-1a and the finaliser of splitmix64.
std::uint64_t site(const std::string& name) {
  std::uint64_t h = 14695981039346656037ull;
  for (const char c : std::string("mask") + '\0' + name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  h ^= h >> 30, h *= 13787848793156543929ull, h ^= h >> 27, h *= 10723151780598845931ull;
  return h ^ (h >> 31);
}

struct Hidden {
  std::vector<std::int32_t> tokens, targets;
  std::vector<std::uint8_t> weights;
  auto operator<=>(const Hidden&) const = default;
};

Hidden hide(const data::Masking& m, const data::MaskDraws& draws, std::vector<std::int32_t> tokens) {
  const auto n = tokens.size();
  Hidden h{std::move(tokens), std::vector<std::int32_t>(n, -7), std::vector<std::uint8_t>(n, 9)};
  data::mask_tokens(m, draws, static_cast<std::int64_t>(n),
                    {h.tokens.data(), h.targets.data(), nullptr, nullptr, h.weights.data()});
  return h;
}

// The rule as it is written, with thresholds such as nine hundredths of 2^32 as exact fractions in long double.
Hidden expected(const data::Masking& m, std::uint64_t seed, const std::string& purpose, std::uint64_t sample,
                const std::vector<std::int32_t>& tokens) {
  const std::size_t n = tokens.size();
  std::vector<Philox> draws;
  for (std::size_t t = 0; t < n; ++t) draws.emplace_back(seed + sample * 11400714819323198485ull, t, site(purpose));
  // Words as lists of positions.
  std::vector<std::vector<std::size_t>> words;
  bool open = false;
  for (std::size_t t = 0; t < n; ++t) {
    if (tokens[t] == m.end_of_document) {
      open = false;
      continue;
    }
    const bool starts = m.word_starts.empty() || m.word_starts[static_cast<std::size_t>(tokens[t])] == 1;
    if (!open || starts) words.emplace_back();
    words.back().push_back(t);
    open = true;
  }
  std::vector<std::size_t> chosen;
  const auto below = [](std::uint32_t x, long double share) {
    return static_cast<long double>(x) < std::floor(share * 4294967296.0L);
  };
  for (const auto& word : words)
    if (below(draws[word[0]].x[0], m.rate)) chosen.insert(chosen.end(), word.begin(), word.end());
  if (chosen.empty() && !words.empty())
    chosen = *std::min_element(words.begin(), words.end(),
                               [&](const auto& a, const auto& b) { return draws[a[0]].x[0] < draws[b[0]].x[0]; });
  Hidden h{tokens, tokens, std::vector<std::uint8_t>(n, 0)};
  for (const auto t : chosen) {
    h.weights[t] = 1;
    if (below(draws[t].x[1], 0.8L)) h.tokens[t] = m.mask_token;
    else if (below(draws[t].x[1], 0.9L))
      h.tokens[t] = static_cast<std::int32_t>(
          std::floor(static_cast<long double>(draws[t].x[2]) / 4294967296.0L * static_cast<long double>(m.vocabulary)));
  }
  return h;
}

std::vector<std::int32_t> text_of(std::size_t n, int vocabulary, std::uint32_t x) {
  std::vector<std::int32_t> out(n);
  for (auto& t : out) {
    x = x * 1664525u + 1013904223u;
    t = static_cast<std::int32_t>((x >> 8) % static_cast<std::uint32_t>(vocabulary));
  }
  return out;
}

// Within four standard deviations of a binomial distribution. The draws are fixed, so this always or never holds.
void expect_share(std::int64_t found, std::int64_t of, double share, const char* what) {
  const auto n = static_cast<double>(of);
  EXPECT_NEAR(static_cast<double>(found), n * share, 4 * std::sqrt(n * share * (1 - share))) << what;
}

}  // namespace

TEST(Masking, IsTheRuleDrawByDraw) {
  std::vector<std::uint8_t> starts(200);
  for (std::size_t i = 0; i < starts.size(); ++i) starts[i] = i % 3 == 0;
  for (const auto& words : {std::vector<std::uint8_t>(), starts})
    for (const double rate : {0.15, 0.4, 1.0, 1e-6})
      for (std::uint64_t sample = 0; sample < 40; ++sample) {
        const data::Masking m{rate, 200, 200, 7, words};
        const auto text = text_of(1 + sample * 13, 200, static_cast<std::uint32_t>(sample));
        EXPECT_EQ(hide(m, data::MaskDraws::of_training(5, sample), text), expected(m, 5, "training", sample, text))
            << rate << " " << sample;
        EXPECT_EQ(hide(m, data::MaskDraws::of_evaluation(sample), text), expected(m, 0, "evaluation", sample, text))
            << rate << " " << sample;
      }
}

TEST(Masking, HidesTheSharesOfThePaper) {
  const data::Masking m{0.15, 1000, 1000, 999, {}};
  std::int64_t eligible = 0, chosen = 0, masked = 0, other = 0, kept = 0;
  std::map<std::int32_t, std::int64_t> random;
  for (std::uint64_t sample = 0; sample < 400; ++sample) {
    const auto text = text_of(1000, 1000, static_cast<std::uint32_t>(sample));
    const auto h = hide(m, data::MaskDraws::of_training(1, sample), text);
    EXPECT_EQ(h.targets, text);
    for (std::size_t t = 0; t < text.size(); ++t) {
      if (text[t] == 999) {
        ASSERT_TRUE(h.weights[t] == 0 && h.tokens[t] == 999) << "an end of document";
        continue;
      }
      ++eligible;
      if (h.weights[t] == 0) {
        ASSERT_EQ(h.tokens[t], text[t]);
        continue;
      }
      ++chosen;
      if (h.tokens[t] == 1000) ++masked;
      else if (h.tokens[t] == text[t]) ++kept;
      else ++other, ++random[h.tokens[t] / 100];
    }
  }
  expect_share(chosen, eligible, 0.15, "chosen");
  expect_share(masked, chosen, 0.8, "masks");
  expect_share(other, chosen, 0.1 * 0.999, "random tokens");  // one in a thousand is the token itself
  expect_share(kept, chosen, 0.1 + 0.1 / 1000, "kept");
  ASSERT_EQ(random.size(), 10u);
  for (const auto& [hundred, count] : random) expect_share(count, other, 0.1, "a hundred of random tokens");
}

TEST(Masking, ASequenceHasOneHiddenTokenAtLeast) {
  const data::Masking m{1e-9, 50, 50, 49, {}};
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    const auto h = hide(m, data::MaskDraws::of_training(1, sample), {49, 3, 49, 4, 5, 49});
    EXPECT_EQ(std::accumulate(h.weights.begin(), h.weights.end(), 0), 1) << sample;
    EXPECT_EQ(h.weights[0] + h.weights[2] + h.weights[5], 0);
  }
  const auto nothing = hide(m, data::MaskDraws::of_training(1, 0), {49, 49});
  EXPECT_EQ(nothing, (Hidden{{49, 49}, {49, 49}, {0, 0}}));
}

TEST(Masking, WordsAreHiddenWhole) {
  std::vector<std::uint8_t> starts(50, 0);
  starts[1] = starts[2] = 1;
  const data::Masking m{0.5, 50, 50, 49, starts};
  // Words: 3 | 1 4 | 2 | 1 5 6 | end | 7 8
  const std::vector<std::int32_t> text{3, 1, 4, 2, 1, 5, 6, 49, 7, 8};
  std::set<std::vector<std::uint8_t>> seen;
  for (std::uint64_t sample = 0; sample < 600; ++sample) {
    const auto w = hide(m, data::MaskDraws::of_training(9, sample), text).weights;
    EXPECT_TRUE(w[1] == w[2] && w[4] == w[5] && w[5] == w[6] && w[8] == w[9] && w[7] == 0);
    seen.insert(w);
  }
  EXPECT_EQ(seen.size(), 31u) << "five words, of which one is hidden at least";
}

TEST(Masking, WindowsHideByEpochInTrainingAndAlwaysTheSameInEvaluation) {
  Scratch scratch;
  const Numbers tokenizer(500);
  const auto index = write_set(scratch.path, tokenizer, documents(tokenizer, 80, 40), 700);
  const data::Masking m{0.3, 500, 500, 499, {}};
  const auto open = [&](data::Order order, std::uint64_t seed) {
    data::WindowDataset set(scratch.path, index, index.train,
                            {.sequence = 24, .mask = data::DocumentMask::on, .order = order, .seed = seed});
    set.hide(m);
    return set;
  };
  const auto at = [](data::WindowDataset& set, std::uint64_t ordinal) {
    Hidden h{std::vector<std::int32_t>(24), std::vector<std::int32_t>(24), std::vector<std::uint8_t>(24)};
    std::vector<std::int32_t> positions(24), starts(24);
    set.fill(ordinal, {h.tokens.data(), h.targets.data(), positions.data(), starts.data(), h.weights.data()});
    return h;
  };
  auto stored = open(data::Order::as_stored, 1), other_seed = open(data::Order::as_stored, 2);
  auto training = open(data::Order::keyed, 1);
  const auto n = stored.count();
  std::map<std::vector<std::int32_t>, std::set<std::vector<std::uint8_t>>> epochs;
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto h = at(stored, i);
    EXPECT_EQ(h, at(stored, i + n)) << "another reading of window " << i;
    EXPECT_EQ(h, at(other_seed, i)) << "another run";
    EXPECT_EQ(h, expected(m, 0, "evaluation", i, h.targets));
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const auto ordinal = epoch * n + i;
      const auto t = at(training, ordinal);
      EXPECT_EQ(t, expected(m, 1, "training", ordinal, t.targets));
      epochs[t.targets].insert(t.weights);
    }
  }
  EXPECT_EQ(epochs.size(), n);
  std::int64_t masks = 0;
  for (const auto& [targets, seen] : epochs) masks += std::ssize(seen);
  EXPECT_GT(masks, 2 * static_cast<std::int64_t>(n)) << "epochs hide the same";
}

TEST(Masking, WindowsSayWhereDocumentsEnd) {
  Scratch scratch;
  const Numbers tokenizer(50);
  const auto index = write_set(scratch.path, tokenizer, {{1, 2, 49}, {3, 49}, {4, 5, 6, 49}}, 100);
  for (const auto mask : {data::DocumentMask::off, data::DocumentMask::on}) {
    data::WindowDataset set(scratch.path, index, index.train,
                            {.sequence = 4, .mask = mask, .order = data::Order::as_stored, .seed = 1});
    std::vector<std::int32_t> a(4), b(4), c(4), d(4), ends(4);
    std::vector<std::uint8_t> weights(4);
    const auto ends_of = [&](std::uint64_t window) {
      set.fill(window, {a.data(), b.data(), c.data(), d.data(), weights.data(), ends.data()});
      return ends;
    };
    const bool on = mask == data::DocumentMask::on;
    EXPECT_EQ(ends_of(0), on ? (std::vector<std::int32_t>{3, 3, 3, 4}) : std::vector<std::int32_t>(4, 4));
    EXPECT_EQ(ends_of(1), on ? (std::vector<std::int32_t>{1, 4, 4, 4}) : std::vector<std::int32_t>(4, 4));
  }
}

// For byte tokens, a word begins with white space. A set without its tokenizer has no words, and gets a new mask token.
TEST(Masking, AsksTheTokenizerOfTheSet) {
  Scratch scratch;
  data::SetIndex bytes;
  bytes.vocabulary = 257, bytes.end_of_document = 256;
  EXPECT_EQ(data::mask_token_of(scratch.path, bytes), 257);
  const auto m = data::masking_of(scratch.path, bytes, 0.2, data::Chosen::words, 257);
  ASSERT_EQ(m.word_starts.size(), 257u);
  for (std::size_t t = 0; t < 257; ++t)
    EXPECT_EQ(m.word_starts[t] != 0, t == ' ' || t == '\n' || t == '\t' || t == '\r') << t;
  EXPECT_TRUE(data::masking_of(scratch.path, bytes, 0.2, data::Chosen::tokens, 257).word_starts.empty());
  auto foreign = bytes;
  foreign.tokenizer = foreign.tokenizer_source = "gone.model";
  EXPECT_EQ(data::mask_token_of(scratch.path, foreign), 257);
  try {
    data::masking_of(scratch.path, foreign, 0.2, data::Chosen::words, 257);
    FAIL() << "words without a tokenizer";
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("--mask-words"), std::string::npos) << e.what();
  }
}
