// NewSet: a shard set under construction, from documents that are already tokenized.
#pragma once

#include "libtrain/base/atomic_file.h"
#include "libtrain/data/build_options.h"
#include "libtrain/data/document_fields.h"
#include "libtrain/data/packing.h"
#include "libtrain/data/refusals.h"
#include "libtrain/data/shard_writer.h"
#include "libtrain/data/tokenizing.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

// All paths that a set, its parts and the list of refusals have, including temporary names while they are made or
// replaced.
std::vector<std::string> written_paths(const BuildOptions& options);

class NewSet {
 public:
  // Throws what check() throws. Counts into `result`. add() with tokens alone counts no documents and no bytes of text,
  // because only the caller knows them.
  NewSet(const Tokenizer& tokenizer, const BuildOptions& options, const std::vector<std::string>& precious,
         BuildResult& result);
  // UsageError where the set or the list of refusals may not be written.
  static void check(const BuildOptions& options, const std::vector<std::string>& precious);

  void add(Split split, std::span<const std::int32_t> tokens, const std::string& source,
           const DocumentFacts& facts = {});
  void add(const TokenizedStretch& stretch);
  // Whether the set is to have a document of this text: false, and counted, if an equal one came before. Always true
  // where the options do not ask for it.
  bool is_new(TextHash hash);
  void refuse(const Refusal& refusal);
  // Publishes the set, or throws InputError as build_shards does. `before` is called first, with the text of
  // index.json.
  void finish(const std::function<void(const std::string& index)>& before = {});

 private:
  const Tokenizer& tokenizer_;
  const BuildOptions& options_;
  BuildResult& result_;
  Refusals refusals_;
  std::optional<base::AtomicFolder> folder_;
  struct Writer {
    ShardWriter shards;
    std::optional<PackingWriter> packing = {};
  };
  Writer& writer_of(Split split) { return split == Split::validation ? *validation_ : *train_; }
  std::vector<ShardEntry> finish(Writer& writer);
  bool is_cut(std::int64_t tokens) const;  // into several packed sequences
  std::unique_ptr<Writer> train_, validation_;
  TextHashes seen_;
  FieldValues fields_;
};

}  // namespace trainyard::data
