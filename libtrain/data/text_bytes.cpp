// A table of bytes for each token.
#include "libtrain/data/text_bytes.h"

#include "libtrain/base/index.h"
#include "libtrain/data/set_tokenizer.h"

#include <utility>

namespace trainyard::data {

TextBytes::TextBytes(const std::string& folder, const SetIndex& index)
    : end_of_document_(index.end_of_document), begin_of_document_(index.begin_of_document) {
  const auto size = base::size(index.vocabulary);
  auto [tokenizer, why_not] = tokenizer_of_set(folder, index);
  why_not_ = std::move(why_not);
  for (auto* table : {&start_, &inside_}) table->assign(size, -1);
  for (std::size_t t = 0; t < size && tokenizer; ++t) {
    start_[t] = static_cast<std::int32_t>(tokenizer->text_bytes(static_cast<std::int32_t>(t), Tokenizer::Place::start));
    inside_[t] =
        static_cast<std::int32_t>(tokenizer->text_bytes(static_cast<std::int32_t>(t), Tokenizer::Place::inside));
  }
}

void TextBytes::add(const WindowPtrs& w, std::int64_t n, Count& count) const {
  for (std::int64_t i = 0; i < n; ++i) {
    if (w.weights[i] == 0) continue;
    const bool starts = w.tokens[i] == end_of_document_ || w.tokens[i] == begin_of_document_;
    const auto bytes = base::at(starts ? start_ : inside_, w.targets[i]);
    if (bytes < 0) ++count.unmeasured;
    else count.bytes += bytes;
  }
}

}  // namespace trainyard::data
