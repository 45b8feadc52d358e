// Draws the order of sentences, the lengths of spans, and their places.
#include "libtrain/data/text_infilling.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/text.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace trainyard::data {

namespace {

constexpr const char* infilling = "text infilling";
constexpr std::uint64_t all_draws = std::uint64_t{1} << 32;
constexpr std::int64_t most_infilled = std::int64_t{1} << 30;

double possible_mean(double mean) {
  if (!(mean >= 0.5 && mean <= 64))
    throw base::UsageError(fmt::format("a mean span of {} tokens: it lies from 0.5 to 64", mean), "mBART has 3.5");
  return mean;
}

// The lengths of all spans, of which those above 0 have the sum `masked`.
std::vector<std::int64_t> span_lengths(const KeyedDraws& draws, const PoissonLengths& lengths, std::int64_t masked) {
  std::vector<std::int64_t> out;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; sum < masked; ++i) {
    const auto length = std::min(lengths(draws.bits(i) >> 32), masked - sum);
    sum += length;
    out.push_back(length);
  }
  // A mask for each masked token at most.
  for (auto left_out = std::ssize(out) - masked; left_out > 0; --left_out)
    out.erase(std::find(out.rbegin(), out.rend(), 0).base() - 1);
  return out;
}

}  // namespace

PoissonLengths::PoissonLengths(double mean) {
  std::vector<double> sums;
  double weight = 1, sum = 1;
  for (double k = 1;; ++k) {
    sums.push_back(sum);
    weight *= mean;
    weight /= k;
    const double next = sum + weight;
    if (k > mean && next == sum) break;
    sum = next;
  }
  for (const double s : sums) thresholds_.push_back(static_cast<std::uint64_t>(s / sum * 0x1p32));
  thresholds_.back() = all_draws;
}

std::int64_t PoissonLengths::operator()(std::uint64_t draw) const {
  return std::upper_bound(thresholds_.begin(), thresholds_.end(), draw) - thresholds_.begin();
}

TextInfiller::TextInfiller(TextInfilling rule) : rule_(std::move(rule)), lengths_(possible_mean(rule_.mean_span)) {
  const auto& rate = rule_.rate;
  if (rate.numerator < 1 || rate.numerator > rate.denominator || rate.denominator > 1'000'000'000)
    throw base::UsageError(
        fmt::format("a rate of {}/{} of the tokens to mask: it lies above 0 and up to 1, with at most nine digits",
                    rate.numerator, rate.denominator),
        "mBART has 0.35");
}

std::vector<std::int32_t> TextInfiller::shuffled(const SampleKey& key, std::span<const std::int32_t> tokens) const {
  if (rule_.sentence_ends.empty()) return {tokens.begin(), tokens.end()};
  std::vector<std::span<const std::int32_t>> sentences;
  std::size_t first = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const bool ends =
        tokens[t] >= 0 && tokens[t] < std::ssize(rule_.sentence_ends) && base::at(rule_.sentence_ends, tokens[t]) != 0;
    if (!ends && t + 1 < tokens.size()) continue;
    sentences.push_back(tokens.subspan(first, t + 1 - first));
    first = t + 1;
  }
  const KeyedDraws draws(key, infilling, "order");
  for (auto i = std::ssize(sentences) - 1; i > 0; --i)
    std::swap(base::at(sentences, i), base::at(sentences, draws.below(i, i + 1)));
  std::vector<std::int32_t> out;
  out.reserve(tokens.size());
  for (const auto& sentence : sentences) out.insert(out.end(), sentence.begin(), sentence.end());
  return out;
}

InfilledCounts TextInfiller::fill(const SampleKey& key, std::span<const std::int32_t> tokens,
                                  const InfilledPtrs& out) const {
  if (tokens.empty() || std::ssize(tokens) > most_infilled)
    throw base::InputError(fmt::format("a sequence of {} tokens for text infilling", tokens.size()),
                           fmt::format("1 to {}", most_infilled));
  const auto text = shuffled(key, tokens);
  InfilledCounts counts;
  counts.masked = (std::ssize(text) * rule_.rate.numerator + rule_.rate.denominator - 1) / rule_.rate.denominator;
  const auto lengths = span_lengths({key, infilling, "lengths"}, lengths_, counts.masked);
  counts.spans = std::ssize(lengths);
  const auto* from = text.data();
  auto* inputs = out.inputs;
  std::int64_t place = 0, span = 0;
  const auto copy_until = [&](std::int64_t end) {
    inputs = std::copy_n(from, end - place, inputs);
    from += end - place;
    place = end;
  };
  const auto places = std::ssize(text) - counts.masked + counts.spans;
  KeyedDraws(key, infilling, "places").choose(places, counts.spans, [&](std::int64_t at) {
    copy_until(at);
    *inputs++ = rule_.mask_token;
    from += base::at(lengths, span++);
    ++place;
  });
  copy_until(places);
  *inputs++ = rule_.end;
  counts.inputs = inputs - out.inputs;
  *std::copy(tokens.begin(), tokens.end(), out.targets) = rule_.end;
  counts.targets = std::ssize(tokens) + 1;
  return counts;
}

bool ends_sentence(std::string_view text) {
  constexpr std::array<std::string_view, 13> closing = {" ", "\n",     "\t",     "\"",     "'",      ")",     "]",
                                                        "}", "\u00bb", "\u2019", "\u201d", "\u300d", "\u300f"};
  constexpr std::array<std::string_view, 12> marks = {".",      "!",      "?",      "\u2026", "\u3002", "\uff01",
                                                      "\uff1f", "\uff0e", "\u0964", "\u06d4", "\u061f", "\u1362"};
  const auto ends_with_any = [&](const auto& all) {
    return std::find_if(all.begin(), all.end(), [&](auto end) { return text.ends_with(end); });
  };
  for (auto end = ends_with_any(closing); end != closing.end(); end = ends_with_any(closing))
    text.remove_suffix(end->size());
  return ends_with_any(marks) != marks.end();
}

std::vector<std::uint8_t> sentence_ends_of(const Tokenizer& tokenizer) {
  std::vector<std::uint8_t> out;
  for (std::int32_t token = 0; token < tokenizer.vocabulary(); ++token)
    out.push_back(ends_sentence(tokenizer.decode({&token, 1})) ? 1 : 0);
  return out;
}

}  // namespace trainyard::data
