// What an exported model says about tokens: its tokenizer, the files beside it, and what the ids mean to transformers.
#pragma once

#include "libtrain/checkpoint/kept_tokenizer.h"
#include "libtrain/checkpoint/reader.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// Reads the tokenizer at a path; nothing: it cannot be read.
using ReadTokens = std::function<std::optional<FileTokens>(const std::string& path)>;

class ExportedTokens {
 public:
  ExportedTokens(const Reader& source, const ReadTokens& read);

  std::int64_t bytes() const;  // at most, of the files that `write` makes
  // A family with position-offset begins its positions behind the id of padding, and gives tokens with this id none.
  // InputError where the data has this token, with the reason why the model cannot be of this family; a warning where
  // it is unlikely, or the tokenizer is not known.
  void require_padding(const char* model_type, std::vector<std::string>& warnings) const;
  // The files beside the imported weights, with the ids of the run. A run that has another tokenizer than the import
  // gets none of them, because all of them are about tokens. Then its own tokenizer, if none came along, with settings
  // for transformers. Returns their names.
  std::vector<std::string> write(const std::string& folder, std::vector<std::string>& warnings) const;

 private:
  bool begins_otherwise() const;
  void write_settings(const std::string& folder, bool own_tokenizer, std::vector<std::string>& names,
                      std::vector<std::string>& warnings) const;
  std::string why_no_beginning(const std::vector<std::string>& names) const;

  const Reader& source_;
  const nlohmann::json& provenance_;
  KeptTokenizer tokenizer_;
  std::optional<FileTokens> tokens_;
  SpecialIds ids_;
};

}  // namespace trainyard::checkpoint
