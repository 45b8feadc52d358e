// PromptLines: prompts from a file or standard input, one on each line.
#pragma once

#include "libtrain/base/error.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::generate {

struct AskedPrompt {
  std::string where;          // "FILE, line 3"
  nlohmann::ordered_json id;  // null: none
  std::string text;           // unless ids are given
  std::optional<std::vector<std::int32_t>> ids;
  std::string target_language;  // empty: the line names none
  // The error with the line before its text.
  base::InputError refused(const base::InputError& error) const;
};

// A line is a JSON text, {"prompt": TEXT} or {"ids": [...]}, with "id" where the user wants one back. Prompts of a
// model with an encoder may have "target_language".
class PromptLines {
 public:
  enum class Of { texts, sources };
  // "-" is standard input. InputError for a file that cannot be read.
  PromptLines(const std::string& path, Of of);
  const std::string& name() const { return name_; }
  std::optional<AskedPrompt> next();  // skips blank lines; InputError for a line that is no prompt
  bool is_file() const;               // which can be read twice
  void rewind();

 private:
  AskedPrompt parsed(const std::string& line, const std::string& where) const;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;  // null: standard input
  std::string name_;
  Of of_;
  std::int64_t line_ = 0;
};

// Whether progress is shown, and what was done so far, over the line before.
bool shows_progress();

}  // namespace trainyard::generate
