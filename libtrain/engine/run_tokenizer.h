// The run's own copy of its tokenizer, so that the run outlives its data.
#pragma once

#include "libtrain/checkpoint/run_state.h"
#include "libtrain/data/shard_set.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::engine {

// Copies the model file of the set's tokenizer to OUTPUT/tokenizer-CRC.model or .json (checkpoint/kept_tokenizer.h).
// Does nothing if the file is there already or the tokenizer is "bytes". A model file that is gone, or is not the one
// that made the set, is a warning: training does not need it. For rank 0.
void keep_tokenizer(const std::string& output, const std::string& data, const data::SetIndex& index);

// The tokenizer that made the tokens on which a checkpoint was trained. tokenizer_of returns nothing if the checkpoint
// does not record it.
struct RecordedTokenizer {
  std::string name;
  std::int64_t crc32c = 0;  // 0: bytes
  bool made(const data::SetIndex& index) const;
};
std::optional<RecordedTokenizer> tokenizer_of(const checkpoint::RunState& state);
// "DATA ends documents with token 5; the weights of CHECKPOINT know 2 as their end ...", and the same of the token that
// begins documents. Empty if the tokens are the same, or if the checkpoint does not record its own. Conversations end
// as their template says, so their end is not compared.
std::string other_ends_text(const std::string& data, const data::SetIndex& index, const std::string& checkpoint,
                            const checkpoint::RunState& state);
// "DATA was made with tokenizer ..., the training data of CHECKPOINT with ...".
std::string other_tokenizer_text(const std::string& data, const data::SetIndex& index, const std::string& checkpoint,
                                 const RecordedTokenizer& tokenizer);

}  // namespace trainyard::engine
