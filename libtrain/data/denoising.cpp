// Finds sentinels and masks of a set, and counts tokens.
#include "libtrain/data/denoising.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/masking.h"
#include "libtrain/data/set_tokenizer.h"
#include "libtrain/plan/spec/objective.h"

#include <algorithm>

namespace trainyard::data {

namespace {

DenoisedLengths lengths_of(const SpanCorruption& rule, std::int64_t sequence, std::int64_t source_sequence) {
  const auto counts = tokens_for_inputs(rule, source_sequence);
  if (counts.targets > sequence)
    throw base::UsageError(
        base::text("span corruption makes sources of {} tokens out of {} tokens of text, with targets of {}, and "
                   "$sequence is {}",
                   counts.inputs, counts.tokens, counts.targets, sequence),
        base::text("at least $sequence {}, or a shorter $source-sequence", counts.targets));
  require_sentinels(rule, counts.tokens);
  return {counts.tokens, counts.inputs, counts.targets};
}

DenoisedLengths lengths_of(const TextInfilling& rule, std::int64_t sequence, std::int64_t source_sequence) {
  const TextInfiller possible(rule);
  const auto row = std::min(sequence, source_sequence);
  if (row < 2)
    throw base::UsageError(base::text("text infilling in sources of {} and targets of {}: both have a token and an end",
                                      source_sequence, base::counted(sequence, "token")),
                           base::text("at least 2 for $source-sequence and $sequence"));
  return {row - 1, row, row};
}

}  // namespace

SpanCorruption span_corruption_of(const std::string& folder, const SetIndex& index) {
  SpanCorruption rule;
  rule.end = index.end_of_document;
  if (const auto set = tokenizer_of_set(folder, index); set.tokenizer) rule.sentinels = named_sentinels(*set.tokenizer);
  if (rule.sentinels.empty())
    rule.sentinels = last_ids(index.vocabulary + plan::usual_sentinels, plan::usual_sentinels);
  return rule;
}

TextInfilling text_infilling_of(const std::string& folder, const SetIndex& index) {
  TextInfilling rule;
  rule.end = index.end_of_document;
  rule.mask_token = static_cast<std::int32_t>(mask_token_of(folder, index));
  return rule;
}

std::vector<std::uint8_t> sentence_ends_of_set(const std::string& folder, const SetIndex& index) {
  const auto set = tokenizer_of_set(folder, index);
  if (!set.tokenizer)
    throw base::InputError(fmt::format("{}: sentences can be found only with the set's tokenizer: {}",
                                       base::one_line(folder), set.why_not),
                           base::text("$objective infilling, which keeps the order of sentences"));
  auto out = sentence_ends_of(*set.tokenizer);
  if (std::find(out.begin(), out.end(), 1) == out.end())
    throw base::InputError(
        fmt::format("{}: no token ends a sentence, with a period for example", base::one_line(folder)),
        base::text("$objective infilling, which keeps the order of sentences"));
  return out;
}

std::int64_t vocabulary_of(const Denoising& rule, const SetIndex& index) {
  auto last = index.vocabulary - 1;
  if (const auto* infilling = std::get_if<TextInfilling>(&rule))
    last = std::max<std::int64_t>(last, infilling->mask_token);
  else
    for (const auto token : std::get<SpanCorruption>(rule).sentinels) last = std::max<std::int64_t>(last, token);
  return last + 1;
}

std::string added_ids_text(const Denoising& rule, const SetIndex& index) {
  const auto vocabulary = vocabulary_of(rule, index);
  if (vocabulary == index.vocabulary) return {};
  if (std::holds_alternative<TextInfilling>(rule))
    return fmt::format(" and no mask token, which gets the id {}", vocabulary - 1);
  return fmt::format(" and no sentinels, which get the ids {} to {}", index.vocabulary, vocabulary - 1);
}

DenoisedLengths denoised_lengths(const Denoising& rule, std::int64_t sequence, std::int64_t source_sequence) {
  return std::visit([&](const auto& r) { return lengths_of(r, sequence, source_sequence); }, rule);
}

}  // namespace trainyard::data
