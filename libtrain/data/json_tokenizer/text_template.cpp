// Reads the post-processors of the `tokenizers` package: the tokens that they put before a text.
#include "libtrain/data/json_tokenizer/text_template.h"

#include "libtrain/data/json_tokenizer/vocabulary.h"

#include <string>

namespace trainyard::data::json_tokenizer {

namespace {

using Json = nlohmann::json;
using TokenIds = std::vector<std::int32_t>;

const Json& part(const Json& of, const std::string& key) {
  static const Json none;
  const auto found = of.is_object() ? of.find(key) : of.end();
  return of.is_object() && found != of.end() ? *found : none;
}

bool add_id(const Json& value, TokenIds& ids) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= static_cast<std::uint64_t>(most_ids)) return false;
  ids.push_back(value.get<std::int32_t>());
  return true;
}

// {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [1]}}}
TokenIds before_sequence(const Json& post_processor) {
  TokenIds ids;
  const auto& single = part(post_processor, "single");
  if (!single.is_array()) return ids;
  for (const auto& piece : single) {
    const auto& name = part(part(piece, "SpecialToken"), "id");
    if (!name.is_string()) return ids;
    const auto& known = part(part(part(post_processor, "special_tokens"), name.get<std::string>()), "ids");
    if (!known.is_array()) return ids;
    for (const auto& id : known)
      if (!add_id(id, ids)) return ids;
  }
  return {};  // the template does not contain the text
}

}  // namespace

TokenIds tokens_before_text(const Json& post_processor) {
  const auto& type = part(post_processor, "type");
  if (type == "TemplateProcessing") return before_sequence(post_processor);
  TokenIds ids;
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const auto& token = part(post_processor, "cls");  // ["<s>", 0]
    if (token.is_array() && token.size() == 2) add_id(token[1], ids);
  } else if (type == "Sequence") {
    const auto& steps = part(post_processor, "processors");
    if (!steps.is_array()) return ids;
    for (const auto& step : steps) {
      if (part(step, "type") == "Sequence") continue;
      const auto outer = tokens_before_text(step);
      ids.insert(ids.begin(), outer.begin(), outer.end());
    }
  }
  return ids;
}

}  // namespace trainyard::data::json_tokenizer
