// Reads the pre-tokenizers of a tokenizer.json.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/data/json_tokenizer/cutters.h"

#include <vector>

namespace trainyard::data::json_tokenizer {

struct PreTokenizers {
  std::vector<Cutter> cutters;
  bool of_bytes = false;  // ByteLevel is one of them
  // Steps follow ByteLevel, which see its characters. Without such steps, pieces stay bytes: the characters would only
  // be turned back.
  bool writes_alphabet = false;
};

// The key `pre_tokenizer` of the whole file. InputError names a type that is not supported.
// `keeps_bytes`: the model takes bytes where ByteLevel is the last step; otherwise it takes the characters.
// `normalizes`: there are normalizers.
PreTokenizers read_pre_tokenizers(base::SortedJsonObject& root, bool keeps_bytes, bool normalizes);

}  // namespace trainyard::data::json_tokenizer
