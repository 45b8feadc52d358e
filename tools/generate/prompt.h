// The prompt: its source and its tokens.
#pragma once

#include "libtrain/data/tokenizer.h"
#include "tools/generate/beginning.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::generate {

// text: the prompt itself, or "-" for standard input; file: a path. At most one is given. Without either the text
// begins a document, and "" is returned. A file and standard input are the prompt byte by byte, with line feeds at
// their end. UsageError for both, or an empty text. InputError for a file that is empty, larger than 16 MiB, or cannot
// be read.
std::string read_prompt(const std::optional<std::string>& text, const std::optional<std::string>& file);

// Reads a line of `file` without its line feed; nothing at the end. A line of more than 16 MiB is read to its end but
// not kept. InputError, naming the file `name`, where it cannot be read.
struct Line {
  std::string text;
  bool too_long = false;
};
std::optional<Line> read_line(std::FILE* file, const std::string& name);
base::InputError too_long_prompt(const std::string& name);
// Parses a line, which is not blank, as base::parse_json does. The hint of an error shows `example`, a line that could
// be read.
nlohmann::ordered_json json_of_line(const std::string& line, const std::string& where, const std::string& example);

// The tokens of a prompt, with those that are put before it.
struct PromptTokens {
  std::vector<std::int32_t> tokens;
  std::size_t put = 0;  // number of tokens put before the prompt
};
// A prompt that already begins with the tokens of `beginning` does not get them twice. A prompt without tokens (an
// empty one) becomes `beginning.alone`. InputError when the result has no tokens or more than `context`, or when the
// tokenizer has no token for a part of the prompt.
PromptTokens prompt_tokens(const data::Tokenizer& tokenizer, std::string_view prompt, std::int64_t context,
                           const Beginning& beginning);

// A prompt of token ids, before which nothing is put. InputError for none, for an id that is no token, and for more
// than `context`.
PromptTokens tokens_of_ids(const data::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                           std::int64_t context);

}  // namespace trainyard::generate
