// The tokenizer that a shard set was made with, where it is still to be had.
#pragma once

#include "libtrain/data/shard_set.h"
#include "libtrain/data/tokenizer.h"

#include <memory>
#include <string>

namespace trainyard::data {

struct SetTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;  // null: it is gone, damaged, or another one
  std::string why_not;                   // a sentence then
};
SetTokenizer tokenizer_of_set(const std::string& folder, const SetIndex& index);

}  // namespace trainyard::data
