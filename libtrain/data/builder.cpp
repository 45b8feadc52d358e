// Builds a set in one process: documents are read, tokenized and appended.
#include "libtrain/data/builder.h"

#include "libtrain/base/number_text.h"
#include "libtrain/data/new_set.h"
#include "libtrain/data/tokenizing.h"

#include <fmt/format.h>

namespace trainyard::data {

std::string text_of(const Refusal& r) { return fmt::format("{}, line {}: {}", r.source, r.line, r.reason); }

std::string left_out_text(const BuildResult& r) {
  auto text =
      r.rejected == 0 ? std::string("none refused") : base::counted(r.rejected, "document") + " refused and left out";
  if (r.empty > 0) text += fmt::format(", {} left out", base::counted(r.empty, "empty document"));
  return text;
}

std::vector<std::string> precious_of(const DocumentSource& source, const BuildOptions& options) {
  auto precious = options.precious;
  for (const auto& input : source.inputs())
    if (input != "-") precious.push_back(input);
  return precious;
}

BuildResult build_shards(DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
                         const std::function<void(std::int64_t)>& progress) {
  BuildResult result;
  NewSet set(tokenizer, options, precious_of(source, options), result);
  tokenize(
      source, tokenizer, {options.threads, options.validation, options.stretch_bytes},
      [&](const TokenizedStretch& stretch) { set.add(stretch); }, [&](const Refusal& r) { set.refuse(r); }, progress);
  set.finish();
  return result;
}

}  // namespace trainyard::data
