// Writes the result of a training as tokenizer.json, a token and a merge a line.
#include "libtrain/base/index.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/bpe/trainer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trainyard::data::bpe {

namespace {

std::string quoted_text(const std::string& text) { return nlohmann::json(text).dump(); }

std::string in_alphabet(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += character_of(static_cast<unsigned char>(c));
  return out;
}

std::string pre_tokenizer_json(Scanner::Rules pattern) {
  constexpr const char* byte_level =
      R"({{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": {}}})";
  if (pattern == Scanner::Rules::gpt2) return fmt::format(byte_level, true);
  return fmt::format(R"({{"type": "Sequence", "pretokenizers": [{{"type": "Split", "pattern": {{"Regex": {}}}, )"
                     R"("behavior": "Isolated", "invert": false}}, {}]}})",
                     quoted_text(llama3_pattern), fmt::format(byte_level, false));
}

}  // namespace

std::string tokenizer_json(const Training& training, std::int64_t special, Scanner::Rules pattern) {
  std::vector<std::string> names;
  names.reserve(training.tokens.size());
  for (const auto& token : training.tokens) names.push_back(std::ssize(names) < special ? token : in_alphabet(token));
  std::string out = "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n\"added_tokens\": [";
  for (std::int64_t id = 0; id < special; ++id)
    out += fmt::format(R"({}{{"id": {}, "content": {}, "single_word": false, "lstrip": false, "rstrip": false, )"
                       R"("normalized": false, "special": true}})",
                       id == 0 ? "" : ",\n", id, quoted_text(base::at(names, id)));
  out += fmt::format("],\n\"normalizer\": null,\n\"pre_tokenizer\": {},\n\"post_processor\": null,\n",
                     pre_tokenizer_json(pattern));
  out +=
      R"("decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
"model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
"end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
"vocab": {)";
  for (std::size_t id = 0; id < names.size(); ++id)
    out += fmt::format("{}\n{}: {}", id == 0 ? "" : ",", quoted_text(names[id]), id);
  out += "},\n\"merges\": [";
  for (std::size_t rank = 0; rank < training.merges.size(); ++rank) {
    const auto& m = training.merges[rank];
    out += fmt::format("{}\n{}", rank == 0 ? "" : ",",
                       quoted_text(base::at(names, m.left) + " " + base::at(names, m.right)));
  }
  return out + "]}}\n";
}

}  // namespace trainyard::data::bpe
