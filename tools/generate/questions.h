// Questions: lines of JSON whose endings, or whole texts, a model scores.
#pragma once

#include "libtrain/data/tokenizer.h"
#include "tools/generate/beginning.h"
#include "tools/generate/scorer.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::generate {

// One line. Endings are scored behind a context; a text is scored as a whole, in as many parts as it needs.
struct Question {
  nlohmann::ordered_json id;  // the line's "id"; else its number, counted from 1
  std::string group;          // the line's "group"; "" without one
  bool is_text = false;
  std::vector<ToScore> parts;            // one for each ending, or the parts of a text
  std::vector<std::int64_t> characters;  // of each ending, without one space at its beginning; 0 where ids are given
  std::int64_t bytes = 0;                // of a text, without what it begins with as texts do; 0: not known
  bool put = false;                      // something was put before a context or text
  std::int64_t cut = 0;                  // tokens that a context lost because it did not fit
  std::optional<std::int64_t> answer;    // the right ending
};

// Reads {"context": TEXT, "endings": [TEXT, ...], "answer": NUMBER}, or {"text": TEXT}. With token ids instead of
// texts:
// {"context_ids": [...], "endings_ids": [[...], ...]}, or {"ids": [...]}. "id" and "group" may stand in each.
// InputError, beginning with `where`, for anything else.
//
// Endings are divided from contexts as the lm-evaluation-harness does. White space at the end of a context, all that
// Python's str.rstrip() removes, belongs to the ending. A context has the tokens that it has alone. An ending has what
// remains of the tokens of both together behind as many: where a token of these lies across the border, the model reads
// other tokens than those of the whole text.
//
// `before` is put before each context and text that does not begin with it, and is not scored. Before ids nothing is
// put, but endings without a context need it. Of a context that does not fit into `room`, the end is kept. A text has
// parts of `room` scored tokens. Those of the last part see as many tokens as fit.
Question question_of(const std::string& line, const std::string& where, const data::Tokenizer& tokenizer,
                     const Beginning& before, std::int64_t room);

}  // namespace trainyard::generate
