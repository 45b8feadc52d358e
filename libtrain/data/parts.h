// Parts: what several tasks make of their shares of the inputs, in a folder beside the set that comes of them.
#pragma once

#include "libtrain/data/builder.h"
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

// Everything that decides what the set will hold, and what the inputs are.
nlohmann::json settings_of(const DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
                           int tasks);

// What part.json says. Lines are counted from the beginning of a piece.
struct PartRecord {
  std::vector<Piece> pieces;
  std::int64_t documents = 0, text_bytes = 0;
  SetIndex index;  // shards of the part, cut like those of the set
};

// OUTPUT.parts: settings.json, which the first task writes and the others compare with theirs, and a folder for each
// task whose part is whole: shards of its documents, part.json, refused.jsonl.
class Parts {
 public:
  Parts(const std::string& output, int tasks);
  const std::string& path() const { return path_; }

  // Makes the folder (true), or compares: UsageError where another task has other settings, InputError where an input
  // is not as it was. Where all parts are there, a task that is run again may judge refusals by other settings.
  bool begin(const nlohmann::json& settings) const;
  bool has(int task) const;
  std::vector<int> missing() const;

  void write(int task, DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
             const std::vector<std::string>& precious, const std::function<void(std::int64_t)>& progress) const;
  PartRecord record(int task) const;
  std::string folder_of(int task) const;
  std::string again(int task) const;  // what to try where a part is damaged

 private:
  std::string path_;
  int tasks_;
};

}  // namespace trainyard::data
