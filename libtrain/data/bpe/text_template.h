// What a tokenizer.json puts before each text: its post_processor.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace trainyard::data::bpe {

// The ids, in order, that stand before a single text: a template's special tokens (TemplateProcessing), or the class
// token (BertProcessing, RobertaProcessing); of a Sequence all of them, the last outermost. Empty for any other
// post-processor. An id that is none ends the reading: whoever uses the ids checks them against the vocabulary.
std::vector<std::int32_t> tokens_before_text(const nlohmann::json& post_processor);

}  // namespace trainyard::data::bpe
