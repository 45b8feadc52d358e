// Scores of tokens, as the `tokenizers` package reads numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::json_tokenizer {

// The number that the package makes of a decimal text. It multiplies or divides all digits by a power of ten, so it may
// differ from the nearest double in the last bit. Sums of scores that would be equal then differ, and so do ids.
double score_of(std::string_view number);

// The scores of model.vocab, in its order, from the text of a whole tokenizer.json. `where` names the file.
std::vector<double> scores_of(const std::string& json, const std::string& where);

}  // namespace trainyard::data::json_tokenizer
