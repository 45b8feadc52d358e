// Words of a translation: white space, and the tokenizers of BLEU, which give the words of sacrebleu 2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::translation {

enum class BleuTokenizer {
  mteval_13a,     // "13a": signs of ASCII apart, also dots and commas that are not between digits
  none,           // "none": words between white space
  character,      // "char": each character is a word
  international,  // "intl": punctuation that is not between digits, and symbols, of all scripts
  chinese,        // "zh": Chinese characters are words, and the rest is as in 13a
};

// The names in the order of the enumeration, and the tokenizer of a name. UsageError for another name.
const std::vector<std::string>& bleu_tokenizer_names();
BleuTokenizer bleu_tokenizer_of(std::string_view name);

bool is_white_space(char32_t c);  // as Python's str.split() has it, with the separators U+001C to U+001F

// The characters of valid UTF-8.
void decode(std::string_view text, std::u32string& out);

// The words between white space.
void split(std::u32string_view text, std::vector<std::u32string_view>& words);

// The words that BLEU counts. `made` holds their characters.
void split_for_bleu(std::u32string_view text, BleuTokenizer tokenizer, std::u32string& made,
                    std::vector<std::u32string_view>& words);

}  // namespace trainyard::data::translation
