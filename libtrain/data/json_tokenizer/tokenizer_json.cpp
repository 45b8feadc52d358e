// Reads the parts of the file in the order in which they depend on each other.
#include "libtrain/data/json_tokenizer/tokenizer_json.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/data/json_tokenizer/models.h"
#include "libtrain/data/json_tokenizer/pre_tokenizers.h"
#include "libtrain/data/json_tokenizer/text_template.h"
#include "libtrain/data/json_tokenizer/vocabulary.h"

#include <utility>

namespace trainyard::data::json_tokenizer {

namespace {

using Object = base::SortedJsonObject;
using Json = nlohmann::json;

std::string what_tokenizers_are() {
  return base::text("$tokenizer takes 'bytes', a SentencePiece model, or a tokenizer.json of the `tokenizers` package");
}

Json parsed(const std::string& text, const std::string& where) {
  try {
    return base::parse_json<Json>(text, where);
  } catch (const base::InputError& e) {
    throw base::InputError(e.what(), what_tokenizers_are());
  }
}

Vocabulary read_model(Object& model, ModelType type, const std::string& json, bool of_bytes, Parts& parts) {
  if (type == ModelType::word_piece) return read_word_piece(model, parts);
  if (type == ModelType::unigram) return read_unigram(model, json, parts);
  return read_bpe(model, of_bytes, parts);
}

}  // namespace

Parts parts_from_json(const std::string& text, const std::string& where) {
  const auto json = parsed(text, where);
  Object root(json, where);
  Parts parts;
  // Truncation and padding do not apply, because documents are never cut or padded, and end with the end of document.
  // The post_processor is only recorded in before_text.
  for (const char* key : {"version", "truncation", "padding"}) root.has(key);
  if (root.has("post_processor")) parts.before_text = tokens_before_text(root.at("post_processor"));
  if (!root.has("model"))
    throw base::InputError(where + " is no tokenizer.json: it has no model", what_tokenizers_are());
  auto model = root.object("model");
  const auto type = model_type(model);
  parts.normalizers = read_normalizers(root);
  parts.decoder = Decoder::read(root);
  auto steps = read_pre_tokenizers(root, type == ModelType::bpe, !parts.normalizers.empty());
  parts.cutters = std::move(steps.cutters);
  parts.writes_alphabet = steps.writes_alphabet && type == ModelType::bpe;
  parts.kind = where;  // names the file to what reads the model
  auto vocabulary = read_model(model, type, text, steps.of_bytes, parts);
  model.done();
  if (parts.tokens_are_bytes && !parts.decoder.of_bytes() && root.has("decoder") && !root.at("decoder").is_null())
    throw base::InputError(where + ": the decoder is not that of byte-level BPE, which is ByteLevel",
                           "set \"decoder\" to {\"type\": \"ByteLevel\"}");
  parts.added = read_added_tokens(root, vocabulary);
  root.done();
  parts.tokens = std::move(vocabulary.tokens);
  for (const auto& t : parts.added)
    if (std::ssize(parts.tokens) <= t.id) parts.tokens.resize(base::size(t.id) + 1);
  return parts;
}

}  // namespace trainyard::data::json_tokenizer
