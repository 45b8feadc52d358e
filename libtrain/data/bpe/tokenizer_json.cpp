// Reads the vocabulary, the merges and the added tokens. steps.cpp reads the steps that split text.
#include "libtrain/data/bpe/tokenizer_json.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/bpe/steps.h"
#include "libtrain/data/bpe/text_template.h"
#include "libtrain/data/bpe/token_index.h"
#include "libtrain/data/bpe/unicode_classes.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

namespace trainyard::data::bpe {

namespace {

using Object = base::SortedJsonObject;
using Json = nlohmann::json;
// Ids of tokens as the file writes them.
using Ids = std::unordered_map<std::string_view, std::int32_t>;

const char* const other_models =
    "byte-level BPE (GPT-2, Llama 3) is supported; for Llama 2 and Mistral give the file tokenizer.model beside it, "
    "which is a SentencePiece model";

void require_no_text(Object& model, const char* key) {
  if (!model.has(key) || model.at(key).is_null() || model.at(key) == Json("")) return;
  throw base::InputError(fmt::format("{}: {} is {}, which byte-level BPE does not use", model.where(), key,
                                     base::excerpt(model.at(key).dump())),
                         other_models);
}

void require_byte_level(Object& model) {
  const auto type = model.has("type") ? model.text("type") : std::string("BPE");  // older files have no type
  if (type != "BPE")
    throw base::InputError(fmt::format("{}: a model of type {}", model.where(), base::excerpt(type)), other_models);
  if (model.has("byte_fallback") && model.boolean("byte_fallback"))
    throw base::InputError(model.where() + ": byte_fallback is BPE of characters", other_models);
  if (model.has("dropout") && !model.at("dropout").is_null() && model.number("dropout") != 0)
    throw base::InputError(model.where() + ": with dropout, the same text becomes other tokens each time",
                           "set \"dropout\" to null");
  require_no_text(model, "continuing_subword_prefix");
  require_no_text(model, "end_of_word_suffix");
  // Every byte has a token, so these are never used.
  model.has("unk_token"), model.has("fuse_unk");
}

std::int32_t id_of(const Json& value, const std::string& token, const std::string& where) {
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() < static_cast<std::uint64_t>(most_ids);
  if (!fits)
    throw base::InputError(fmt::format("{}: the id of token {} is {}", where, base::excerpt(token),
                                       value.is_structured() ? value.type_name() : base::excerpt(value.dump())),
                           fmt::format("ids are whole numbers below {}", most_ids));
  return value.get<std::int32_t>();
}

// The tokens of text, by id. A token with characters outside the alphabet cannot come from text. Added tokens may
// define it, and `foreign` lists its id.
class Vocabulary {
 public:
  Vocabulary(const Json& object, const std::string& where) : where_(where) {
    if (!object.is_object()) throw base::InputError(where + ": the vocabulary is no object of tokens and ids");
    ids_.reserve(object.size());
    for (const auto& [token, value] : object.items()) add(token, id_of(value, token, where));
    for (int b = 0; b < 256; ++b)
      if (const auto c = character_of(static_cast<unsigned char>(b)); !ids_.contains(c))
        throw base::InputError(
            fmt::format("{}: no token for the byte 0x{:02x} ({}): text with it would be lost", where, b, c),
            "it is no byte-level BPE, or was trained without the alphabet (initial_alphabet of the trainer)");
  }
  std::optional<std::int32_t> find(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<std::string> tokens;
  std::vector<std::pair<std::int32_t, std::string_view>> foreign;

 private:
  void add(const std::string& token, std::int32_t id) {
    if (token.empty()) throw base::InputError(where_ + ": a token without text", "remove it from the vocabulary");
    if (std::ssize(tokens) <= id) tokens.resize(base::size(id) + 1);
    if (!taken_.emplace(id, token).second)
      throw base::InputError(fmt::format("{}: tokens {} and {} have the same id {}", where_, base::excerpt(taken_[id]),
                                         base::excerpt(token), id),
                             "is the file damaged?");
    ids_.emplace(token, id);
    if (auto bytes = bytes_of(token)) base::at(tokens, id) = std::move(*bytes);
    else foreign.emplace_back(id, token);
  }
  const std::string& where_;
  Ids ids_;
  std::unordered_map<std::int32_t, std::string_view> taken_;
};

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

std::vector<Merge> merges_of(const Json& list, const std::vector<std::string>& tokens, const std::string& where) {
  const TokenIndex index(tokens);
  std::vector<Merge> out;
  out.reserve(list.size());
  for (const auto& item : list) {
    const auto halves = halves_of(item, where);
    const auto id = [&](const std::string& token) {
      const auto bytes = bytes_of(token);
      const auto found = bytes ? index.find(*bytes) : std::nullopt;
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

bool is_white_space(const std::string& text) {
  const char *at = text.data(), *const end = at + text.size();
  while (at < end && class_table()[next_code_point(at)] == CharClass::space) {}
  return at == end && !text.empty();
}

class AddedTokenReader {
 public:
  AddedTokenReader(Vocabulary& vocabulary, std::string where) : vocabulary_(vocabulary), where_(std::move(where)) {}

  void add(const Json& item) {
    Object o(item, where_);
    AddedToken t{o.text("content", longest_added_token), id_of(o.at("id"), "", where_)};
    const auto flag = [&](const char* key) { return o.has(key) && o.boolean(key); };
    t.special = flag("special"), t.single_word = flag("single_word");
    t.normalized = flag("normalized"), t.left_strip = flag("lstrip"), t.right_strip = flag("rstrip");
    const auto name = base::excerpt(t.text);
    if (t.left_strip && t.right_strip && is_white_space(t.text))
      throw base::InputError(
          fmt::format("{}: {} is white space with lstrip and rstrip, which is not supported", where_, name),
          "set \"lstrip\" or \"rstrip\" to false");
    o.done();
    if (t.text.empty()) throw base::InputError(fmt::format("{}: token {} has no text", where_, t.id));
    if (!texts_.emplace(t.text, t.id).second || !ids_.emplace(t.id, t.text).second)
      throw base::InputError(fmt::format("{}: {} is there twice, or shares its id {}", where_, name, t.id),
                             "is the file damaged?");
    require_own_id(t, name);
    added_.push_back(std::move(t));
  }

  std::vector<AddedToken> take() {
    for (const auto& [id, token] : vocabulary_.foreign)
      if (const auto found = ids_.find(id); found == ids_.end())
        throw base::InputError(
            fmt::format("{}: token {} is not written in the byte-level alphabet, and is no added token", where_,
                        base::excerpt(token)),
            other_models);
    return std::move(added_);
  }

 private:
  // An added token that is in the vocabulary must have the same id there. Any other added token must have an id that is
  // free in the vocabulary.
  void require_own_id(const AddedToken& t, const std::string& name) {
    const auto known = vocabulary_.find(t.text);
    const auto at = base::size(t.id);
    const bool foreign = std::any_of(vocabulary_.foreign.begin(), vocabulary_.foreign.end(),
                                     [&](const auto& f) { return f.first == t.id && f.second != t.text; });
    const bool taken = foreign || (!known && at < vocabulary_.tokens.size() && !vocabulary_.tokens[at].empty());
    if ((known && *known != t.id) || taken)
      throw base::InputError(fmt::format("{}: {} has the id {}, {}", where_, name, t.id,
                                         known ? fmt::format("in the vocabulary it has {}", *known)
                                               : "which a token of the vocabulary has"),
                             "is the file damaged, or put together of two?");
  }

  Vocabulary& vocabulary_;
  std::string where_;
  std::vector<AddedToken> added_;
  std::unordered_map<std::string, std::int32_t> texts_;
  std::unordered_map<std::int32_t, std::string> ids_;
};

std::string what_tokenizers_are() {
  return base::text("$tokenizer takes 'bytes', a SentencePiece model, or a tokenizer.json of the `tokenizers` package");
}

Json parsed(const std::string& text, const std::string& where) {
  try {
    return base::parse_json<Json>(text, where);
  } catch (const base::InputError& e) {
    throw base::InputError(e.what(), what_tokenizers_are());
  }
}

}  // namespace

Definition definition_from_json(const std::string& text, const std::string& where) {
  const auto json = parsed(text, where);
  Object root(json, where);
  Definition d;
  // Truncation and padding do not apply, because documents are never cut or padded, and end with the end of document.
  // The post_processor is only recorded in before_text.
  for (const char* key : {"version", "truncation", "padding"}) root.has(key);
  if (root.has("post_processor")) d.before_text = tokens_before_text(root.at("post_processor"));
  if (!root.has("model"))
    throw base::InputError(where + " is no tokenizer.json: it has no model", what_tokenizers_are());
  auto model = root.object("model");
  require_byte_level(model);
  d.composes = composes(root);
  require_byte_level_decoder(root);
  d.steps = steps_of(root);
  Vocabulary vocabulary(model.at("vocab"), where);
  d.merges = merges_of(model.array("merges"), vocabulary.tokens, where);
  d.ignore_merges = model.has("ignore_merges") && model.boolean("ignore_merges");
  model.done();
  AddedTokenReader added(vocabulary, where + ": added_tokens");
  if (root.has("added_tokens"))
    for (const auto& item : root.array("added_tokens")) added.add(item);
  d.added = added.take();
  root.done();
  d.tokens = std::move(vocabulary.tokens);
  for (const auto& t : d.added) {
    if (std::ssize(d.tokens) <= t.id) d.tokens.resize(base::size(t.id) + 1);
  }
  return d;
}

}  // namespace trainyard::data::bpe
