// One function for each type of model.
#include "libtrain/data/json_tokenizer/models.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/bpe/character_merges.h"
#include "libtrain/data/bpe/merges.h"
#include "libtrain/data/bpe/token_index.h"
#include "libtrain/data/json_tokenizer/scores.h"
#include "libtrain/data/pieces/unigram.h"
#include "libtrain/data/pieces/word_piece.h"

#include <cmath>
#include <optional>
#include <utility>

namespace trainyard::data::json_tokenizer {

namespace {

using Object = base::SortedJsonObject;
using Json = nlohmann::json;

void require_no_text(Object& model, const char* key) {
  if (!model.has(key) || model.at(key).is_null() || model.at(key) == Json("")) return;
  throw base::InputError(fmt::format("{}: {} is {}, which is not supported with BPE", model.where(), key,
                                     base::excerpt(model.at(key).dump())),
                         "byte-level BPE, and BPE with byte_fallback, do not use it");
}

// "a b", or ["a", "b"].
std::pair<std::string, std::string> halves_of(const Json& merge, const std::string& where) {
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const auto space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  throw base::InputError(fmt::format("{}: {} is no merge", where, base::excerpt(merge.dump())),
                         "a merge is \"a b\" or [\"a\", \"b\"]");
}

std::vector<bpe::Merge> merges_of(const Json& list, const std::vector<std::string>& tokens, bool of_bytes,
                                  const std::string& where) {
  const bpe::TokenIndex index(tokens);
  std::vector<bpe::Merge> out;
  out.reserve(list.size());
  for (const auto& item : list) {
    // The first line of a merges.txt, which the package skips too.
    if (item.is_string() && item.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto halves = halves_of(item, where);
    const auto id = [&](const std::string& token) {
      const auto text = of_bytes ? bpe::bytes_of(token) : std::optional(token);
      const auto found = text ? index.find(*text) : std::nullopt;
      if (!found)
        throw base::InputError(
            fmt::format("{}: merge {} of {} and {} needs the token {}, which the vocabulary lacks", where, out.size(),
                        base::excerpt(halves.first), base::excerpt(halves.second), base::excerpt(token)),
            "is the file damaged, or its vocabulary of another tokenizer?");
      return *found;
    };
    out.push_back({id(halves.first), id(halves.second), id(halves.first + halves.second)});
  }
  return out;
}

bool flag_of(Object& model, const char* key) { return model.has(key) && model.boolean(key); }

std::int32_t named_token(const Vocabulary& vocabulary, const std::string& name) {
  const auto found = vocabulary.find(name);
  if (!found)
    throw base::InputError(
        fmt::format("{}: the vocabulary lacks the unknown token {}", vocabulary.where(), base::excerpt(name)),
        "is the file damaged, or its vocabulary of another tokenizer?");
  return *found;
}

// The mark of the pre-tokenizer, else SentencePiece's.
std::string mark_of(const std::vector<Cutter>& cutters) {
  for (const auto& cutter : cutters)
    if (const auto* metaspace = std::get_if<MetaspaceCutter>(&cutter)) return metaspace->mark;
  return "\u2581";
}

bool writes_characters_of_bytes(const std::vector<Cutter>& cutters) {
  for (const auto& cutter : cutters)
    if (std::holds_alternative<AlphabetCutter>(cutter)) return true;
  return false;
}

// Words of a model of characters.
WordBeginning marked_words(const std::vector<Cutter>& cutters) {
  const auto mark = writes_characters_of_bytes(cutters) ? bpe::character_of(' ') : mark_of(cutters);
  return {WordBeginning::Sign::mark, mark};
}

bool has_all_bytes(const Vocabulary& vocabulary, const bpe::CharacterMerges::Options& options) {
  bool all = options.byte_fallback;
  for (int byte = 0; all && byte < 256; ++byte)
    all = vocabulary.find(pieces::byte_token(static_cast<unsigned char>(byte))).has_value();
  return all;
}

std::vector<bpe::Merge> read_merges(Object& model, const Vocabulary& vocabulary, bool of_bytes) {
  return merges_of(model.array("merges"), vocabulary.tokens, of_bytes, vocabulary.where());
}

}  // namespace

ModelType model_type(Object& model) {
  if (!model.has("type")) {
    if (model.has("merges")) return ModelType::bpe;
    if (model.has("max_input_chars_per_word")) return ModelType::word_piece;
    return model.at("vocab").is_array() ? ModelType::unigram : ModelType::bpe;
  }
  const auto type = model.text("type");
  if (type == "BPE") return ModelType::bpe;
  if (type == "WordPiece") return ModelType::word_piece;
  if (type == "Unigram") return ModelType::unigram;
  throw base::InputError(fmt::format("{}: a model of type {}", model.where(), base::excerpt(type)),
                         "BPE, WordPiece and Unigram are supported");
}

Vocabulary read_bpe(Object& model, bool of_bytes, Parts& parts) {
  if (model.has("dropout") && !model.at("dropout").is_null() && model.number("dropout") != 0)
    throw base::InputError(model.where() + ": with dropout, the same text becomes other tokens each time",
                           "set \"dropout\" to null");
  require_no_text(model, "continuing_subword_prefix");
  require_no_text(model, "end_of_word_suffix");
  bpe::CharacterMerges::Options options{flag_of(model, "ignore_merges"), flag_of(model, "byte_fallback"),
                                        flag_of(model, "fuse_unk")};
  if (of_bytes && options.byte_fallback)
    throw base::InputError(model.where() + ": byte_fallback is BPE of characters, and ByteLevel makes all text bytes",
                           "one of them is enough");
  const auto writing = of_bytes ? Vocabulary::Writing::alphabet : Vocabulary::Writing::plain;
  auto vocabulary = Vocabulary::of_object(model.at("vocab"), writing, parts.kind);
  bpe::Definition definition{vocabulary.tokens, read_merges(model, vocabulary, of_bytes), options.ignore_merges};
  const bool has_unknown = model.has("unk_token") && !model.at("unk_token").is_null();
  if (of_bytes) {
    // Every byte has a token, so no text is unknown.
    parts.kind = "byte-level BPE";
    parts.tokens_are_bytes = true;
    parts.model = std::make_unique<bpe::Merges>(definition);
    return vocabulary;
  }
  parts.kind = "BPE";
  if (has_unknown) options.unknown = parts.unknown = named_token(vocabulary, model.text("unk_token"));
  if (!has_unknown && !has_all_bytes(vocabulary, options))
    throw base::InputError(vocabulary.where() +
                               ": characters without a token would be lost, because there is neither "
                               "an unk_token nor byte_fallback with a token for each byte",
                           "name an unk_token; byte-level BPE needs the pre_tokenizer ByteLevel");
  parts.words = marked_words(parts.cutters);
  const bool metaspace_splits = std::any_of(parts.cutters.begin(), parts.cutters.end(), [](const Cutter& c) {
    const auto* metaspace = std::get_if<MetaspaceCutter>(&c);
    return metaspace != nullptr && metaspace->splits;
  });
  if (auto borders = bpe::word_borders(definition, options); borders && !metaspace_splits)
    parts.cutters.emplace_back(BorderCutter{std::move(borders->joined)});
  parts.model = std::make_unique<bpe::CharacterMerges>(definition, options);
  return vocabulary;
}

Vocabulary read_word_piece(Object& model, Parts& parts) {
  auto vocabulary = Vocabulary::of_object(model.at("vocab"), Vocabulary::Writing::plain, parts.kind);
  parts.kind = "WordPiece";
  pieces::WordPiece::Options options;
  if (model.has("continuing_subword_prefix")) options.continuing_prefix = model.text("continuing_subword_prefix");
  if (model.has("max_input_chars_per_word"))
    options.longest_word = model.integer("max_input_chars_per_word", 0, std::int64_t{1} << 40);
  const auto unknown = model.has("unk_token") ? model.text("unk_token") : std::string("[UNK]");
  options.unknown = parts.unknown = named_token(vocabulary, unknown);
  parts.words = {WordBeginning::Sign::no_prefix, options.continuing_prefix};
  parts.model = std::make_unique<pieces::WordPiece>(vocabulary.tokens, options);
  return vocabulary;
}

Vocabulary read_unigram(Object& model, const std::string& json, Parts& parts) {
  Vocabulary vocabulary(Vocabulary::Writing::plain, parts.kind);
  parts.kind = "Unigram";
  std::int32_t count = 0;
  for (const auto& item : model.array("vocab")) {
    const bool whole = item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_number();
    if (!whole || count >= most_ids)
      throw base::InputError(fmt::format("{}: entry {} of the vocabulary is {}", vocabulary.where(), count,
                                         whole ? "one too many" : base::excerpt(item.dump())),
                             fmt::format("an entry is [\"token\", score], and there are at most {}", most_ids));
    vocabulary.add(item[0].get_ref<const std::string&>(), count++);
  }
  if (count == 0) throw base::InputError(vocabulary.where() + ": a vocabulary without tokens");
  auto scores = scores_of(json, vocabulary.where());
  TRAINYARD_ASSERT(std::ssize(scores) == count, "{} scores of {} tokens", scores.size(), count);
  if (model.has("unk_id") && !model.at("unk_id").is_null())
    parts.unknown = static_cast<std::int32_t>(model.integer("unk_id", 0, count - 1));
  parts.words = marked_words(parts.cutters);
  parts.model = std::make_unique<pieces::Unigram>(vocabulary.tokens, std::move(scores), parts.unknown,
                                                  flag_of(model, "byte_fallback"));
  return vocabulary;
}

}  // namespace trainyard::data::json_tokenizer
