// The parts of a tokenizer.json around its model: the normalizer, the pre-tokenizers and the decoder.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/data/bpe/definition.h"

#include <vector>

namespace trainyard::data::bpe {

// Each function reads its key of the whole file. InputError names an unsupported type.
bool composes(base::SortedJsonObject& root);  // true: the normalizer is NFC; false: there is none
void require_byte_level_decoder(base::SortedJsonObject& root);
std::vector<Step> steps_of(base::SortedJsonObject& root);

}  // namespace trainyard::data::bpe
