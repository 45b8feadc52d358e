// The parts of a tokenizer.json around its model: what changes text before it is cut, what cuts it, what joins it
// again.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/data/bpe/definition.h"

#include <vector>

namespace trainyard::data::bpe {

// Each reads its key of the whole file. InputError, naming the type, for what is not supported.
void require_no_normalizer(base::SortedJsonObject& root);
void require_byte_level_decoder(base::SortedJsonObject& root);
std::vector<Step> steps_of(base::SortedJsonObject& root);

}  // namespace trainyard::data::bpe
