// Reads tokens and ids, and holds them against each other.
#include "libtrain/data/json_tokenizer/vocabulary.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/bpe/unicode_classes.h"

#include <algorithm>

namespace trainyard::data::json_tokenizer {

namespace {

using Json = nlohmann::json;

bool is_white_space(std::string_view text) {
  for (const char *at = text.data(), *const end = at + text.size(); at != end;)
    if (bpe::class_table()[bpe::next_code_point(at)] != bpe::CharClass::space) return false;
  return !text.empty();
}

class AddedTokenReader {
 public:
  AddedTokenReader(const Vocabulary& vocabulary, std::string where)
      : vocabulary_(vocabulary), where_(std::move(where)) {}

  void add(const Json& item) {
    base::SortedJsonObject o(item, where_);
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
            "is the pre_tokenizer that of another tokenizer?");
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
      throw base::InputError(
          fmt::format(
              "{}: {} has the id {}, {}", where_, name, t.id,
              known ? fmt::format("in the vocabulary it has {}", *known) : "which a token of the vocabulary has"),
          fmt::format("is the file damaged, or put together of two? The `tokenizers` package would give it {}, and so "
                      "may you",
                      known ? fmt::format("the id {}", *known) : "an id behind the others"));
  }

  const Vocabulary& vocabulary_;
  std::string where_;
  std::vector<AddedToken> added_;
  std::unordered_map<std::string, std::int32_t> texts_;
  std::unordered_map<std::int32_t, std::string> ids_;
};

}  // namespace

std::int32_t id_of(const Json& value, const std::string& token, const std::string& where) {
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() < static_cast<std::uint64_t>(most_ids);
  if (!fits)
    throw base::InputError(fmt::format("{}: the id of token {} is {}", where, base::excerpt(token),
                                       value.is_structured() ? value.type_name() : base::excerpt(value.dump())),
                           fmt::format("ids are whole numbers below {}", most_ids));
  return value.get<std::int32_t>();
}

Vocabulary Vocabulary::of_object(const Json& object, Writing writing, const std::string& where) {
  if (!object.is_object()) throw base::InputError(where + ": the vocabulary is no object of tokens and ids");
  Vocabulary out(writing, where);
  out.ids_.reserve(object.size());
  for (const auto& [token, value] : object.items()) out.add(token, id_of(value, token, where));
  if (writing == Writing::alphabet) out.require_bytes();
  return out;
}

void Vocabulary::add(std::string_view token, std::int32_t id) {
  if (token.empty())
    throw base::InputError(
        fmt::format("{}: token {} is a token without text", where_, id),
        "remove it from the vocabulary: the `tokenizers` package loads it, but no text becomes it there");
  if (std::ssize(tokens) <= id) tokens.resize(base::size(id) + 1), taken_.resize(base::size(id) + 1);
  if (taken_[base::size(id)]) {
    const auto other = std::find_if(ids_.begin(), ids_.end(), [&](const auto& known) { return known.second == id; });
    throw base::InputError(
        fmt::format("{}: tokens {} and {} have the same id {}", where_,
                    base::excerpt(other == ids_.end() ? token : other->first), base::excerpt(token), id),
        "is the file damaged?");
  }
  taken_[base::size(id)] = true;
  if (!ids_.emplace(token, id).second)
    throw base::InputError(fmt::format("{}: token {} is there twice", where_, base::excerpt(token)),
                           "is the file damaged?");
  if (writing_ == Writing::plain) base::at(tokens, id) = token;
  else if (auto bytes = bpe::bytes_of(token)) base::at(tokens, id) = std::move(*bytes);
  else foreign.emplace_back(id, token);
}

std::optional<std::int32_t> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

void Vocabulary::require_bytes() const {
  for (int b = 0; b < 256; ++b)
    if (const auto c = bpe::character_of(static_cast<unsigned char>(b)); !ids_.contains(c))
      throw base::InputError(
          fmt::format("{}: no token for the byte 0x{:02x} ({}): text with it would be lost", where_, b, c),
          "it is no byte-level BPE, or was trained without the alphabet (initial_alphabet of the trainer)");
}

std::vector<AddedToken> read_added_tokens(base::SortedJsonObject& root, const Vocabulary& vocabulary) {
  AddedTokenReader added(vocabulary, root.where() + ": added_tokens");
  if (root.has("added_tokens"))
    for (const auto& item : root.array("added_tokens")) added.add(item);
  return added.take();
}

}  // namespace trainyard::data::json_tokenizer
