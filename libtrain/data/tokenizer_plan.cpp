// Reads what tokenizer to train.
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/bpe/definition.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/document_splitter.h"
#include "libtrain/data/json_tokenizer/vocabulary.h"
#include "libtrain/data/new_tokenizer.h"
#include "libtrain/data/pieces/model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace trainyard::data {

namespace {

constexpr std::int64_t bytes_in_vocabulary = 256, of_sentencepiece = 3;

struct KindName {
  std::string_view name;
  TokenizerKind kind;
};
constexpr std::array<KindName, 4> kinds{{{"bpe", TokenizerKind::bpe},
                                         {"bpe-gpt2", TokenizerKind::bpe_gpt2},
                                         {"unigram", TokenizerKind::unigram},
                                         {"sentencepiece-bpe", TokenizerKind::sentencepiece_bpe}}};

[[noreturn]] void refuse_special(const std::string& token, const std::string& why) {
  throw base::UsageError(base::text("$special-token {} {}", base::excerpt(token), why),
                         "a text such as '<|im_start|>' or '[MASK]', given once");
}

void require_special(const TokenizerPlan& plan, const std::string& token) {
  if (token.empty() || token.size() > json_tokenizer::longest_added_token || !is_utf8(token))
    refuse_special(token, fmt::format("is no text of 1 to {} bytes", json_tokenizer::longest_added_token));
  const auto* at = token.data();
  bpe::next_code_point(at);
  if (at == token.data() + token.size()) refuse_special(token, "is a single character, which text has too");
  // In tokenizer.json, bytes have names of one character each.
  if (const auto bytes = bpe::bytes_of(token); !plan.by_sentencepiece() && bytes && *bytes != token)
    refuse_special(token, "is written like bytes in the byte-level alphabet, in which letters with marks are bytes");
  if (has_special(plan, token)) refuse_special(token, "is there already");
  if (plan.by_sentencepiece() && pieces::byte_of_token(token) >= 0)
    refuse_special(token, "is a byte in the vocabulary of SentencePiece");
}

}  // namespace

bool has_special(const TokenizerPlan& plan, const std::string& token) {
  if (plan.by_sentencepiece() && (token == "<unk>" || token == "<s>" || token == "</s>")) return true;
  return std::find(plan.special.begin(), plan.special.end(), token) != plan.special.end();
}

TokenizerPlan tokenizer_plan(const std::string& text, const std::vector<std::string>& special) {
  const auto colon = std::min(text.find(':'), text.size());
  const auto name = std::string_view(text).substr(0, colon);
  const auto* found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.name == name; });
  TokenizerPlan plan;
  const auto* end = text.data() + text.size();
  const auto* digits = std::min(text.data() + colon + 1, end);
  const auto [stop, error] = std::from_chars(digits, end, plan.vocabulary);
  if (found == kinds.end() || error != std::errc() || stop != end || plan.vocabulary < 1)
    throw base::UsageError(base::text("$train-tokenizer {} is not of the form KIND:N", base::excerpt(text)),
                           "bpe:32000, bpe-gpt2:32000, unigram:32000 or sentencepiece-bpe:32000");
  plan.kind = found->kind;
  if (!plan.by_sentencepiece()) plan.special.emplace_back("<|endoftext|>");
  for (const auto& token : special) {
    require_special(plan, token);
    plan.special.push_back(token);
  }
  const auto least = bytes_in_vocabulary + std::ssize(plan.special) + (plan.by_sentencepiece() ? of_sentencepiece : 0);
  if (plan.vocabulary < least || plan.vocabulary > json_tokenizer::most_ids)
    throw base::UsageError(
        base::text("$train-tokenizer {}: a vocabulary has {} (the bytes and the special tokens) to {} tokens", text,
                   least, json_tokenizer::most_ids),
        base::text("$train-tokenizer {}:32000", name));
  return plan;
}

std::int64_t usual_sample(TokenizerKind kind) {
  return std::int64_t{kind == TokenizerKind::bpe || kind == TokenizerKind::bpe_gpt2 ? 1024 : 128} << 20;
}

std::string name_of(TokenizerKind kind) {
  const auto* found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.kind == kind; });
  return std::string(found->name);
}

const char* file_name_of(TokenizerKind kind) {
  return kind == TokenizerKind::bpe || kind == TokenizerKind::bpe_gpt2 ? "tokenizer.json" : "tokenizer.model";
}

}  // namespace trainyard::data
