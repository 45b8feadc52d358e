// Counts by whole numbers, and chooses where spans end.
#include "libtrain/data/span_corruption.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/set_tokenizer.h"

#include <algorithm>
#include <utility>

namespace trainyard::data {

namespace {

constexpr std::int64_t most_corrupted = std::int64_t{1} << 30;  // products with a fraction fit 64 bits
constexpr std::int64_t longest_mean = 1'000'000;

std::int64_t half_to_even(std::int64_t numerator, std::int64_t denominator) {
  const auto whole = numerator / denominator, rest = numerator % denominator;
  const bool up = rest > denominator - rest || (rest == denominator - rest && whole % 2 == 1);
  return whole + (up ? 1 : 0);
}

void require_possible(const SpanCorruption& rule) {
  const auto& [rate, mean, sentinels, end] = rule;
  if (rate.numerator < 1 || rate.numerator >= rate.denominator || rate.denominator > 1'000'000'000)
    throw base::UsageError(
        fmt::format("a rate of {}/{} of the tokens in spans: it lies between 0 and 1, with at most nine digits",
                    rate.numerator, rate.denominator),
        "T5 has 0.15");
  if (mean.denominator < 1 || mean.denominator > 1'000'000'000 || mean.numerator < mean.denominator ||
      mean.numerator / mean.denominator > longest_mean)
    throw base::UsageError(fmt::format("a mean span of {}/{} tokens: it lies from 1 to {}", mean.numerator,
                                       mean.denominator, longest_mean),
                           "T5 has 3");
}

// Needs a rule that is possible and a number of tokens in its range.
SpanCounts counts_of(const SpanCorruption& rule, std::int64_t tokens) {
  SpanCounts c;
  c.tokens = tokens;
  c.noise = std::clamp<std::int64_t>(half_to_even(tokens * rule.rate.numerator, rule.rate.denominator), 1, tokens - 1);
  const auto spans = half_to_even(c.noise * rule.mean_span.denominator, rule.mean_span.numerator);
  c.spans = std::min(std::max<std::int64_t>(spans, 1), tokens - c.noise);
  c.inputs = tokens - c.noise + c.spans + 1;
  c.targets = c.noise + c.spans + 1;
  return c;
}

// Lengths of spans, each above 0, with their sum.
std::vector<std::int64_t> random_lengths(const KeyedDraws& draws, std::int64_t tokens, std::int64_t spans) {
  std::vector<std::int64_t> out;
  std::int64_t begin = 0;
  draws.choose(tokens - 1, spans - 1, [&](std::int64_t place) {
    out.push_back(place + 1 - begin);
    begin = place + 1;
  });
  out.push_back(tokens - begin);
  return out;
}

}  // namespace

SpanCounts span_counts(const SpanCorruption& rule, std::int64_t tokens) {
  require_possible(rule);
  if (tokens < least_corrupted)
    throw base::InputError(fmt::format("a sequence of {} is too short for span corruption, which hides some tokens and "
                                       "leaves some",
                                       base::counted(tokens, "token")),
                           fmt::format("sequences of {} tokens or more", least_corrupted));
  if (tokens > most_corrupted)
    throw base::UsageError(fmt::format("a sequence of {} tokens is too long for span corruption", tokens),
                           fmt::format("at most {}", most_corrupted));
  return counts_of(rule, tokens);
}

SpanCounts tokens_for_inputs(const SpanCorruption& rule, std::int64_t row) {
  require_possible(rule);
  const auto least = counts_of(rule, least_corrupted);
  if (row < least.inputs)
    throw base::UsageError(fmt::format("a row of {} is too short for span corruption", base::counted(row, "input")),
                           fmt::format("{} or more: a token, a sentinel and the end", least.inputs));
  if (counts_of(rule, most_corrupted).inputs <= row)
    throw base::UsageError(fmt::format("a row of {} inputs is too long for span corruption", row),
                           "a shorter row, or a smaller rate");
  // Inputs never get shorter with more tokens: of one token more, either it stays, or it is noise.
  auto fits = least_corrupted, too_many = most_corrupted;
  while (too_many - fits > 1) {
    const auto middle = fits + (too_many - fits) / 2;
    (counts_of(rule, middle).inputs <= row ? fits : too_many) = middle;
  }
  return counts_of(rule, fits);
}

void require_sentinels(const SpanCorruption& rule, std::int64_t tokens) {
  const auto counts = span_counts(rule, tokens);
  if (counts.spans > std::ssize(rule.sentinels))
    throw base::UsageError(
        fmt::format("span corruption of {} tokens hides {}, each behind a sentinel of its own, and "
                    "there are {}",
                    tokens, base::counted(counts.spans, "span"), base::counted(std::ssize(rule.sentinels), "sentinel")),
        "shorter sequences, longer spans or a smaller rate");
}

SpanCounts corrupt_spans(const SpanCorruption& rule, const SampleKey& key, std::span<const std::int32_t> tokens,
                         const CorruptedPtrs& out) {
  const auto counts = span_counts(rule, std::ssize(tokens));
  require_sentinels(rule, std::ssize(tokens));
  const auto clean = random_lengths({key, "span corruption", "clean"}, counts.tokens - counts.noise, counts.spans);
  const auto noise = random_lengths({key, "span corruption", "noise"}, counts.noise, counts.spans);
  const auto* from = tokens.data();
  auto *inputs = out.inputs, *targets = out.targets;
  for (std::int64_t s = 0; s < counts.spans; ++s) {
    inputs = std::copy_n(from, base::at(clean, s), inputs);
    from += base::at(clean, s);
    *inputs++ = *targets++ = base::at(rule.sentinels, s);
    targets = std::copy_n(from, base::at(noise, s), targets);
    from += base::at(noise, s);
  }
  *inputs = *targets = rule.end;
  return counts;
}

std::vector<std::int32_t> named_sentinels(const Tokenizer& tokenizer) {
  for (const char* before : {"", "\xE2\x96\x81"}) {
    std::vector<std::int32_t> out;
    for (int i = 0;; ++i) {
      const auto token = tokenizer.token_named(fmt::format("{}<extra_id_{}>", before, i));
      if (token < 0) break;
      out.push_back(token);
    }
    if (!out.empty()) return out;
  }
  return {};
}

std::vector<std::int32_t> last_ids(std::int64_t vocabulary, std::int64_t count) {
  if (count < 1 || count >= vocabulary)
    throw base::UsageError(fmt::format("the last {} ids of a vocabulary of {} as sentinels", count, vocabulary),
                           fmt::format("1 to {}", vocabulary - 1));
  std::vector<std::int32_t> out;
  for (std::int64_t i = 1; i <= count; ++i) out.push_back(static_cast<std::int32_t>(vocabulary - i));
  return out;
}

std::vector<std::int32_t> sentinels_of(const std::string& folder, const SetIndex& index, const SentinelIds& ids) {
  if (ids.count > 0) {
    auto out = last_ids(ids.vocabulary > 0 ? ids.vocabulary : index.vocabulary, ids.count);
    for (const auto token : {index.end_of_document, index.begin_of_document})
      if (std::find(out.begin(), out.end(), token) != out.end())
        throw base::UsageError(fmt::format("the last {} ids of {} cannot be sentinels: {} of them is a token around "
                                           "documents",
                                           ids.count, base::one_line(folder), token),
                               "a tokenizer that has the tokens <extra_id_0>, <extra_id_1> and so on");
    return out;
  }
  const auto set = tokenizer_of_set(folder, index);
  if (!set.tokenizer)
    throw base::InputError(fmt::format("span corruption needs sentinels, and the tokens of {} have no names: {}",
                                       base::one_line(folder), set.why_not),
                           "put the tokenizer back, or say how many of the last ids are sentinels");
  auto out = named_sentinels(*set.tokenizer);
  if (out.empty())
    throw base::InputError(fmt::format("the tokenizer of {} has no sentinel <extra_id_0>", base::one_line(folder)),
                           "say how many of the last ids are sentinels, or take a tokenizer that has such tokens");
  return out;
}

}  // namespace trainyard::data
