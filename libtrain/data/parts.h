// Parts: what several tasks make from their shares of the inputs, in a folder beside the set that the parts become.
#pragma once

#include "libtrain/data/build_options.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/data/share.h"
#include "libtrain/data/tokenizer.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

// All settings that decide the content of the set, and the inputs with their sizes and times of change.
nlohmann::json settings_of(const DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
                           int tasks);

// The content of part.json. Lines are counted from the beginning of a piece.
struct PartRecord {
  std::vector<Piece> pieces;
  std::int64_t documents = 0, text_bytes = 0;
  SetIndex index;  // shards of the part, split as the set's shards are
};

// The folder OUTPUT.parts. It has settings.json, which the first task writes and other tasks compare with their own
// settings. It has a folder for each task whose part is whole: shards of its documents, part.json and refused.jsonl.
class Parts {
 public:
  Parts(const std::string& output, int tasks);
  const std::string& path() const { return path_; }

  // Creates the folder (returns true), or compares. UsageError where another task has other settings, InputError where
  // an input has changed. When all parts exist, a task that is run again may have other settings for refusals.
  bool begin(const nlohmann::json& settings) const;
  bool has(int task) const;
  std::vector<int> missing() const;

  void write(int task, DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
             const std::vector<std::string>& precious, const std::function<void(std::int64_t)>& progress) const;
  PartRecord record(int task) const;
  std::string folder_of(int task) const;
  std::string again(int task) const;  // what to try if a part is damaged

 private:
  std::string path_;
  int tasks_;
};

}  // namespace trainyard::data
