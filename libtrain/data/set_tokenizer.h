// The tokenizer that a shard set was made with, where it is still available.
#pragma once

#include "libtrain/data/shard_set.h"
#include "libtrain/data/tokenizer.h"

#include <memory>
#include <string>

namespace trainyard::data {

struct SetTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;  // null: it is missing, damaged, or another one
  std::string why_not;                   // then the reason, as a sentence
};
SetTokenizer tokenizer_of_set(const std::string& folder, const SetIndex& index);

// Its kind, as "WordPiece" (tokenizer.h). Empty: the tokenizer cannot be read.
std::string tokenizer_kind(const std::string& folder, const SetIndex& index);

}  // namespace trainyard::data
