// The parts of a tokenizer.json around its model: what changes text before it is cut, what cuts it, what joins it
// again.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/data/bpe/definition.h"

#include <vector>

namespace trainyard::data::bpe {

// Each reads its key of the whole file. InputError, naming the type, for what is not supported.
bool composes(base::SortedJsonObject& root);  // the normalizer is NFC; false: there is none
void require_byte_level_decoder(base::SortedJsonObject& root);
std::vector<Step> steps_of(base::SortedJsonObject& root);

}  // namespace trainyard::data::bpe
