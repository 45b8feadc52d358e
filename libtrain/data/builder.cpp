// Builds a set in one process: documents are read, tokenized and appended.
#include "libtrain/data/builder.h"

#include "libtrain/data/new_set.h"
#include "libtrain/data/tokenizing.h"

namespace trainyard::data {

BuildResult build_shards(DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
                         const std::function<void(std::int64_t)>& progress) {
  BuildResult result;
  NewSet set(tokenizer, options, precious_of(source, options), result);
  tokenize(
      source, tokenizer, {options.threads, options.validation, options.stretch_bytes, options.deduplicate},
      [&](const TokenizedStretch& stretch) { set.add(stretch); }, [&](const Refusal& r) { set.refuse(r); }, progress);
  set.finish();
  return result;
}

}  // namespace trainyard::data
