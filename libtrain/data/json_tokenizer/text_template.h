// What a tokenizer.json puts before each text: its post_processor.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace trainyard::data::json_tokenizer {

// The ids before a single text, in order. They are a template's special tokens (TemplateProcessing) or the class token
// (BertProcessing, RobertaProcessing). A Sequence gives the ids of all its processors, the last one outermost. Empty
// for any other post-processor. An invalid id ends the reading; the caller checks the ids against the vocabulary.
std::vector<std::int32_t> tokens_before_text(const nlohmann::json& post_processor);

}  // namespace trainyard::data::json_tokenizer
