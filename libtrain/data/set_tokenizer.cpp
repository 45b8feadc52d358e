// Reads the tokenizer where the index says it is, and compares it with the index.
#include "libtrain/data/set_tokenizer.h"

#include "libtrain/base/error.h"

namespace trainyard::data {

SetTokenizer tokenizer_of_set(const std::string& folder, const SetIndex& index) {
  const auto source = tokenizer_path(folder, index);
  SetTokenizer out;
  try {
    out.tokenizer = make_tokenizer(source, document_tokens(index.end_of_document, index.begin_of_document));
  } catch (const base::InputError& e) {
    out.why_not = e.what();
    return out;
  }
  const auto& t = *out.tokenizer;
  if (t.crc32c() != index.tokenizer_crc32c || t.vocabulary() != index.vocabulary ||
      t.end_of_document() != index.end_of_document) {
    out.why_not = fmt::format("{} is not the tokenizer that the shards were made with", source);
    out.tokenizer.reset();
  }
  return out;
}

std::string tokenizer_kind(const std::string& folder, const SetIndex& index) {
  if (index.tokenizer_source == "bytes") return "bytes";
  const auto [tokenizer, why_not] = tokenizer_of_set(folder, index);
  return tokenizer ? tokenizer->kind() : std::string();
}

}  // namespace trainyard::data
