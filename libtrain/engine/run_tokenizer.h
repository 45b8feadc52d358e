// The run's own copy of its tokenizer, so that a run outlives its data.
#pragma once

#include "libtrain/data/shard_set.h"

#include <string>

namespace trainyard::engine {

// Copies the model of the set's tokenizer to OUTPUT/tokenizer-CRC.model or .json (data::kept_tokenizer_name), unless it
// is there already or the tokenizer is "bytes". A model that is gone, or is another one than the set was made with, is
// a warning: training does not need it. For rank 0.
void keep_tokenizer(const std::string& output, const std::string& data, const data::SetIndex& index);

}  // namespace trainyard::engine
