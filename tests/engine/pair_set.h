// A small set of pairs: the target is the source backwards, with its letters moved by one.
#pragma once

#include "libtrain/data/builder.h"
#include "libtrain/data/text_pair.h"
#include "tests/engine/small_run.h"

namespace trainyard::testing {

inline std::string write_pairs(const SmallRun& runs, const std::string& name, std::uint64_t pairs,
                               const data::PairLanguages& languages = {}) {
  std::string sources, targets;
  for (std::uint64_t p = 0; p < pairs; ++p) {
    std::string source;
    for (std::uint64_t i = 0; i < 3 + p * 7 % 11; ++i)
      source += static_cast<char>('a' + base::random_words(11, p, i)[0] % 24);
    std::string target(source.rbegin(), source.rend());
    for (auto& c : target) ++c;
    sources += source + "\n", targets += target + "\n";
  }
  const auto base_name = (runs.folder() / name).string();
  base::write_file(base_name + ".source", sources), base::write_file(base_name + ".target", targets);
  data::PairOptions of;
  of.targets = {base_name + ".target"};
  if (languages.known()) of.languages = {languages};
  data::SourceOptions source;
  source.pairs = std::make_shared<const data::PairOptions>(of);
  data::BuildOptions options;
  options.output = base_name, options.validation = 0.2, options.pairs = true, options.shard_tokens = 700;
  if (of.has_languages()) options.fields = {"source_language", "target_language"};
  data::DocumentSource from({base_name + ".source"}, source);
  data::build_shards(from, *data::make_tokenizer("bytes"), options, [](std::int64_t) {});
  return base_name;
}

}  // namespace trainyard::testing
