// Span corruption: spans of a text are hidden behind sentinels, and the targets name what each hides (Raffel et al.
// 2020, "Exploring the limits of transfer learning", section 3.1.4).
#pragma once

#include "libtrain/base/decimal.h"
#include "libtrain/data/keyed_draws.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

struct SpanCorruption {
  base::Fraction rate{3, 20}, mean_span{3, 1};  // share of tokens that are noise; tokens of a span
  std::vector<std::int32_t> sentinels;          // in the order of use
  std::int32_t end = 0;                         // ends inputs and targets
};

// What a sequence of so many tokens becomes. `inputs` and `targets` are lengths, with sentinels and end.
struct SpanCounts {
  std::int64_t tokens = 0, noise = 0, spans = 0, inputs = 0, targets = 0;
  bool operator==(const SpanCounts&) const = default;
};

inline constexpr std::int64_t least_corrupted = 2;  // tokens: one of noise and one that stays

// Of n tokens, round(rate n) are noise, but at least 1 and at most n - 1. They lie in round(noise / mean_span) spans,
// but at least in one, and in no more than there are tokens that stay. Halves are rounded to the even number.
// UsageError for a rate or mean that is not possible, InputError for fewer than `least_corrupted` tokens.
SpanCounts span_counts(const SpanCorruption& rule, std::int64_t tokens);

// How many tokens to take so that inputs fill a row: the most whose inputs are not longer. UsageError for a row that
// holds no inputs.
SpanCounts tokens_for_inputs(const SpanCorruption& rule, std::int64_t row);

// UsageError where the rule has fewer sentinels than sequences of so many tokens need.
void require_sentinels(const SpanCorruption& rule, std::int64_t tokens);

struct CorruptedPtrs {
  std::int32_t *inputs, *targets;  // room for SpanCounts::inputs and ::targets
};

// Hides spans of `tokens`, whose number span_counts was asked for. A clean span and a span of noise take turns, and the
// first is clean. Both kinds have random lengths above 0 with their sums, each list of lengths equally likely: the
// places where a span ends are chosen by KeyedDraws(key, "span corruption", "noise" and "clean"). Inputs have a
// sentinel for each span of noise; targets have the sentinel and then the span. Both end with `end`. Ends of documents
// are tokens as all others. A text that has a sentinel itself keeps it. InputError as span_counts; UsageError where
// sentinels are too few.
SpanCounts corrupt_spans(const SpanCorruption& rule, const SampleKey& key, std::span<const std::int32_t> tokens,
                         const CorruptedPtrs& out);

// The tokens <extra_id_0>, <extra_id_1>, ... of a tokenizer, in this order, also as pieces that begin with U+2581.
// Empty: it has none.
std::vector<std::int32_t> named_sentinels(const Tokenizer& tokenizer);
// The last `count` ids of a vocabulary, the last one first. UsageError where these are all ids or more.
std::vector<std::int32_t> last_ids(std::int64_t vocabulary, std::int64_t count);
// Sentinels that no name shows: the last `count` ids of a vocabulary, which may be larger than the set's. T5's
// spiece.model has 32,000 pieces, and its sentinels are the last 100 ids of 32,100.
struct SentinelIds {
  std::int64_t count = 0, vocabulary = 0;  // count 0: sentinels have names; vocabulary 0: the set's
};
// The sentinels of a set, by name or as `ids` says. InputError where its tokenizer names none or is not available;
// UsageError where one of the ids is a token around documents.
std::vector<std::int32_t> sentinels_of(const std::string& folder, const SetIndex& index, const SentinelIds& ids = {});

}  // namespace trainyard::data
