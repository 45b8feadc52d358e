// The run's own copy of its tokenizer, so that a run outlives its data.
#pragma once

#include "libtrain/checkpoint/run_state.h"
#include "libtrain/data/shard_set.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::engine {

// Copies the model of the set's tokenizer to OUTPUT/tokenizer-CRC.model or .json (data::kept_tokenizer_name), unless it
// is there already or the tokenizer is "bytes". A model that is gone, or is another one than the set was made with, is
// a warning: training does not need it. For rank 0.
void keep_tokenizer(const std::string& output, const std::string& data, const data::SetIndex& index);

// The tokenizer whose tokens a checkpoint was made with; nothing where it does not say.
struct RecordedTokenizer {
  std::string name;
  std::int64_t crc32c = 0;  // 0: bytes
  bool made(const data::SetIndex& index) const;
};
std::optional<RecordedTokenizer> tokenizer_of(const checkpoint::RunState& state);
// "DATA ends documents with token 5, which is another than the weights of CHECKPOINT know, 2"; empty where it is the
// same, or where the checkpoint does not say.
std::string other_end_text(const std::string& data, const data::SetIndex& index, const std::string& checkpoint,
                           const checkpoint::RunState& state);
// "DATA was made with tokenizer ..., the training data of CHECKPOINT with ...".
std::string other_tokenizer_text(const std::string& data, const data::SetIndex& index, const std::string& checkpoint,
                                 const RecordedTokenizer& tokenizer);

}  // namespace trainyard::engine
