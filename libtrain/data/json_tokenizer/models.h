// Reads the model of a tokenizer.json: its vocabulary, and how pieces become tokens.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/data/json_tokenizer/tokenizer_json.h"
#include "libtrain/data/json_tokenizer/vocabulary.h"

namespace trainyard::data::json_tokenizer {

enum class ModelType { bpe, word_piece, unigram };

// The type; older files do not write it. InputError for a type that is not supported.
ModelType model_type(base::SortedJsonObject& model);

// Each fills in the model, its kind, the unknown token and how words begin; the cutters are there already. Returns the
// vocabulary, which borrows `model`. `of_bytes`: the pre-tokenizer is ByteLevel.
Vocabulary read_bpe(base::SortedJsonObject& model, bool of_bytes, Parts& parts);
Vocabulary read_word_piece(base::SortedJsonObject& model, Parts& parts);
// `json`: the whole file.
Vocabulary read_unigram(base::SortedJsonObject& model, const std::string& json, Parts& parts);

}  // namespace trainyard::data::json_tokenizer
