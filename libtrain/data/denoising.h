// Denoising: a text as a pair for a model with an encoder, by span corruption or by text infilling; the rule that a set
// has, and the lengths that follow from it.
#pragma once

#include "libtrain/data/span_corruption.h"
#include "libtrain/data/text_infilling.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace trainyard::data {

using Denoising = std::variant<SpanCorruption, TextInfilling>;

// Span corruption of a set, of T5's rate and mean span. Sentinels are the named ones of the set's tokenizer, where it
// is available and has some. Otherwise they are plan::usual_sentinels new ids behind the set's vocabulary, the last one
// first: of T5's 32,000 pieces, 32,099 to 32,000.
SpanCorruption span_corruption_of(const std::string& folder, const SetIndex& index);
// Text infilling of a set, of mBART's rate and mean span. The mask is that of mask_token_of, and sentences stay in
// their order.
TextInfilling text_infilling_of(const std::string& folder, const SetIndex& index);
// The table of the set's tokens that end sentences. InputError if the set's tokenizer is not available, or has no such
// token.
std::vector<std::uint8_t> sentence_ends_of_set(const std::string& folder, const SetIndex& index);

// The ids that a model needs for the rule: the set's vocabulary, and what the rule adds behind it.
std::int64_t vocabulary_of(const Denoising& rule, const SetIndex& index);
// "" or what the rule adds: " and no sentinels, which get the ids 257 to 356".
std::string added_ids_text(const Denoising& rule, const SetIndex& index);

// What a sequence takes of the text, and how long its sides are at most.
struct DenoisedLengths {
  std::int64_t tokens = 0, source = 0, target = 0;
  bool operator==(const DenoisedLengths&) const = default;
};

// Sources fill `source_sequence` places as well as they can (tokens_for_inputs). By infilling, where lengths are drawn,
// the tokens are as many as surely fit on both sides. UsageError for a rule that is not possible, where the targets do
// not fit `sequence` places, or where sentinels are too few.
DenoisedLengths denoised_lengths(const Denoising& rule, std::int64_t sequence, std::int64_t source_sequence);

}  // namespace trainyard::data
