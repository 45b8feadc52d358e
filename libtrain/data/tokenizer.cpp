// Tokenizers for bytes and SentencePiece; the folder json_tokenizer/ has those of a tokenizer.json.
#include "libtrain/data/tokenizer.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/json_tokenizer/json_tokenizer.h"

#include <fmt/ranges.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <mutex>

namespace trainyard::data {

namespace {

// White space as in JSON.
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class Bytes : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  std::string kind() const override { return "bytes"; }
  std::uint32_t crc32c() const override { return 0; }
  std::string source() const override { return "bytes"; }
  std::int64_t vocabulary() const override { return 257; }
  std::int32_t end_of_document() const override { return 256; }
  bool begins_word(std::int32_t token) const override {
    return token >= 0 && token < 256 && is_space(static_cast<char>(token));
  }
  void encode(std::string_view text, std::vector<std::int32_t>& out) const override { append(text, out); }
  void encode_narrow(std::string_view text, std::vector<std::uint16_t>& out) const override { append(text, out); }
  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string out;
    for (auto t : tokens)
      if (t >= 0 && t < 256) out += static_cast<char>(t);
    return out;
  }
  std::int64_t text_bytes(std::int32_t token, Place) const override { return token >= 0 && token < 256 ? 1 : 0; }

 private:
  template <class T> static void append(std::string_view text, std::vector<T>& out) {
    const auto before = out.size();
    out.resize(before + text.size());
    std::transform(text.begin(), text.end(), out.data() + before, [](char c) { return static_cast<unsigned char>(c); });
  }
};

std::string_view without_space(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

// Explains a file that holds no SentencePiece model. Where the content shows what it is, that says more than the
// library's message.
void refuse_neither(const std::string& path, std::string_view model) {
  const auto text = without_space(model);
  const auto* why = text.empty()                        ? "it is empty"
                    : model.starts_with("\xef\xbb\xbf") ? "it begins with a byte order mark"
                    : text.front() == '['               ? "it begins like a list in JSON"
                                                        : nullptr;
  if (why)
    throw base::InputError(
        fmt::format("{} is neither a tokenizer.json nor a SentencePiece model: {}", path, why),
        base::text("give a tokenizer.json of the `tokenizers` package, a SentencePiece model, or $tokenizer bytes"));
}

// Reads the fields of a message of protobuf, as far as SentencePiece models have them.
class ProtobufFields {
 public:
  explicit ProtobufFields(std::string_view bytes) : bytes_(bytes) {}
  // False: there is no other field.
  bool next() {
    const auto tag = number();
    const auto wire = tag & 7;
    field = tag >> 3, value = 0, bytes = {};
    if (wire == 0) value = number();
    else if (wire == 1) take(8);
    else if (wire == 2) bytes = take(number());
    else if (wire == 5) take(4);
    else return false;
    return good_ && tag != 0;
  }
  std::uint64_t field = 0, value = 0;
  std::string_view bytes;

 private:
  std::uint64_t number() {
    std::uint64_t n = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = take(1);
      if (byte.empty()) return 0;
      n |= std::uint64_t{static_cast<unsigned char>(byte[0]) & 0x7Fu} << shift;
      if (static_cast<unsigned char>(byte[0]) < 0x80) return n;
    }
    good_ = false;
    return 0;
  }
  std::string_view take(std::uint64_t n) {
    good_ = good_ && n <= bytes_.size();
    if (!good_) return {};
    const auto taken = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return taken;
  }
  std::string_view bytes_;
  bool good_ = true;
};

// Whether a piece of a SentencePiece model is found in any text that has it. The library does not say so: the model has
// its pieces in field 1, and each its type in field 3.
bool is_user_defined(std::string_view model, std::int32_t piece) {
  constexpr std::uint64_t pieces = 1, type = 3, user_defined = 4;
  std::int32_t id = 0;
  for (ProtobufFields all(model); all.next();) {
    if (all.field != pieces || id++ != piece) continue;
    for (ProtobufFields one(all.bytes); one.next();)
      if (one.field == type) return one.value == user_defined;
    return false;
  }
  return false;
}

// Whether the pieces of a SentencePiece model have the space behind a word, as its trainer_spec (2) says in field 24.
bool has_space_behind_words(std::string_view model) {
  constexpr std::uint64_t trainer_spec = 2, treat_whitespace_as_suffix = 24;
  bool has = false;
  for (ProtobufFields all(model); all.next();) {
    if (all.field != trainer_spec) continue;
    for (ProtobufFields one(all.bytes); one.next();)
      if (one.field == treat_whitespace_as_suffix) has = one.value != 0;
  }
  return has;
}

class SentencePiece : public Tokenizer {
 public:
  SentencePiece(const std::string& path, std::string model, const DocumentTokens& around)
      : path_(path), model_(std::move(model)) {
    crc_ = base::crc32c(model_.data(), model_.size());
    const auto status = processor_.LoadFromSerializedProto(model_);
    if (!status.ok()) refuse_neither(path, model_);
    if (!status.ok())
      throw base::InputError(fmt::format("{} is not a SentencePiece model: {}", path, status.ToString()),
                             base::text("make one with spm_train, give a tokenizer.json, or use $tokenizer bytes"));
    space_behind_words_ = has_space_behind_words(model_);
    divides_at_space_ = no_piece_has_inner_space();
    own_end_ = processor_.eos_id() < 0 && around.end.empty();
    end_ = processor_.eos_id() >= 0 ? processor_.eos_id() : processor_.GetPieceSize();
    if (!around.end.empty()) end_ = id_of(around.end, processor_.GetPieceSize());
    if (!around.begin.empty()) begin_ = id_of(around.begin, processor_.GetPieceSize() - 1);
    for (const char* name : {"<mask>", "[MASK]"})
      if (const int id = processor_.PieceToId(name); id != processor_.unk_id() && processor_.IdToPiece(id) == name)
        mask_ = id;
    removes_space_ = ids_of(processor_, " ").empty();
  }
  std::string name() const override { return std::filesystem::path(path_).filename().string(); }
  std::string kind() const override { return "SentencePiece"; }
  std::uint32_t crc32c() const override { return crc_; }
  std::string source() const override { return path_; }
  std::string_view model() const override { return model_; }
  std::int64_t vocabulary() const override { return std::max(processor_.GetPieceSize(), end_ + 1); }
  std::int32_t end_of_document() const override { return end_; }
  std::int32_t begin_of_document() const override { return begin_; }
  bool made_its_end() const override { return own_end_; }
  std::int32_t token_named(std::string_view name) const override {
    const int id = processor_.PieceToId(name);
    return id >= 0 && id < processor_.GetPieceSize() && processor_.IdToPiece(id) == name ? id : -1;
  }
  std::string name_of_token(std::int32_t token) const override {
    return token < 0 || token >= processor_.GetPieceSize() ? std::string() : processor_.IdToPiece(token);
  }
  std::int32_t unknown() const override { return processor_.unk_id(); }
  std::int32_t mask() const override { return mask_; }
  bool begins_word(std::int32_t token) const override {
    if (token < 0 || token >= processor_.GetPieceSize() || token == mask_) return true;
    return processor_.IsControl(token) || processor_.IdToPiece(token).starts_with(space);
  }
  void encode(std::string_view text, std::vector<std::int32_t>& out) const override { encode_part(text, {}, out); }
  void encode_part(std::string_view text, const Before& before, std::vector<std::int32_t>& out) const override {
    auto at = before;
    while (!text.empty()) {
      const auto part = take_part(text);
      const auto ids = ids_of(space_behind_words_ ? reader_before(part, text) : reader_of(part, at), part);
      out.insert(out.end(), ids.begin(), ids.end());
      at.text = part;
    }
  }
  bool space_behind_words() const override { return space_behind_words_; }
  bool is_in_text(std::int32_t token) const override { return token >= 0 && is_user_defined(model_, token); }
  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::vector<int> ids;
    for (auto t : tokens)
      if (t != end_ && t != begin_ && t >= 0 && t < processor_.GetPieceSize()) ids.push_back(t);
    std::string out;
    const auto status = processor_.Decode(ids, &out);
    TRAINYARD_ASSERT(status.ok(), "{}", status.ToString());
    return out;
  }
  std::int64_t text_bytes(std::int32_t token, Place place) const override {
    if (token == end_ || token == begin_ || token < 0 || token >= processor_.GetPieceSize() ||
        processor_.IsControl(token))
      return 0;
    if (processor_.IsUnknown(token)) return -1;
    if (processor_.IsByte(token)) return 1;  // alone it would decode to a replacement character
    // The library knows whether it added a leading space itself.
    if (place == Place::start) return static_cast<std::int64_t>(decode({&token, 1}).size());
    const auto& piece = processor_.IdToPiece(token);
    auto bytes = static_cast<std::int64_t>(piece.size());
    for (auto at = piece.find(space); at != std::string::npos; at = piece.find(space, at + space.size()))
      bytes -= static_cast<std::int64_t>(space.size()) - 1;
    return bytes;
  }

 private:
  static constexpr std::string_view space = "\u2581";
  using Processor = sentencepiece::SentencePieceProcessor;

  static std::vector<int> ids_of(const Processor& processor, std::string_view text) {
    std::vector<int> ids;
    const auto status = processor.Encode(text, &ids);
    TRAINYARD_ASSERT(status.ok(), "{}", status.ToString());
    return ids;
  }

  // The model with or without a space that it puts before a text, or behind it, itself. A message of protobuf followed
  // by another one is both: a field of the second counts. Here this is normalizer_spec (3), in it add_dummy_prefix (3).
  const Processor& reader(bool puts_space) const {
    auto& one = readers_[puts_space ? 1 : 0];
    std::call_once(one.made, [&] {
      const char field[] = {0x1A, 0x02, 0x18, static_cast<char>(puts_space ? 1 : 0)};
      const auto status = one.processor.LoadFromSerializedProto(model_ + std::string(field, sizeof field));
      TRAINYARD_ASSERT(status.ok(), "{}", status.ToString());
    });
    return one.processor;
  }

  // Where a text goes on, no space is put before it. A model that removes white space at both ends of a text removes
  // it at borders of parts too, and there the space that is put stands for it.
  const Processor& reader_of(std::string_view part, const Before& before) const {
    if (before.text.empty()) return before.document_begins ? processor_ : reader(false);
    if (!removes_space_) return reader(false);
    return reader(is_space_at(before.text, End::last) || is_space_at(part, End::first));
  }

  // The same of a model that puts the space behind a text: it is behind the last part alone.
  const Processor& reader_before(std::string_view part, std::string_view rest) const {
    if (rest.empty()) return processor_;
    return reader(removes_space_ && (is_space_at(part, End::last) || is_space_at(rest, End::first)));
  }

  // Whether the model reads white space at the end of a text, behind or before what it leaves out.
  enum class End { first, last };
  bool is_space_at(std::string_view text, End side) const {
    while (!text.empty()) {
      std::size_t n = 1;
      const auto begins = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80; };
      if (side == End::first)
        while (n < text.size() && !begins(n)) ++n;
      else
        while (n < text.size() && !begins(text.size() - n)) ++n;
      const auto character = side == End::first ? text.substr(0, n) : text.substr(text.size() - n);
      if (side == End::first && character == space) return false;  // it is kept, but for the end of a text
      const auto& plain = reader(false);
      if (!ids_of(plain, character).empty()) return false;
      if (ids_of(plain, fmt::format("a{}a", character)) != ids_of(plain, "aa")) return true;
      if (side == End::first) text.remove_prefix(n);
      else text.remove_suffix(n);
    }
    return false;
  }

  std::int32_t id_of(const std::string& token, int last) const {
    if (const auto id = id_of_digits(token); id && *id <= last) return *id;
    if (const int id = processor_.PieceToId(token); processor_.IdToPiece(id) == token) return id;
    std::vector<std::string> names;
    for (int id = 0; id < processor_.GetPieceSize(); ++id)
      if (processor_.IsControl(id)) names.push_back(processor_.IdToPiece(id));
    throw no_such_token(path_, token, std::move(names));
  }

  // Whether every text may be divided between a space and a character that is none, because no piece has one inside: in
  // front of the space, or behind it where it belongs to the word before.
  bool no_piece_has_inner_space() const {
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      std::string_view piece = processor_.IdToPiece(id);
      if (space_behind_words_)
        while (piece.ends_with(space)) piece.remove_suffix(space.size());
      else
        while (piece.starts_with(space)) piece.remove_prefix(space.size());
      if (piece.find(space) != std::string_view::npos || piece.find(' ') != std::string_view::npos) return false;
    }
    return true;
  }

  // The place where a text is divided so: at the last such space in its first 64 KiB, else at the first one behind.
  std::size_t place_at_space(std::string_view text) const {
    constexpr std::size_t usual = std::size_t{64} << 10, none = std::string_view::npos;
    if (!divides_at_space_) return none;
    const auto place = [&](std::size_t at) {
      if (space_behind_words_) return at + 1 < text.size() && !is_space(text[at + 1]) ? at + 1 : none;
      return at > 0 && !is_space(text[at - 1]) ? at : none;
    };
    for (auto at = text.rfind(' ', usual - 1); at != none; at = at > 0 ? text.rfind(' ', at - 1) : none)
      if (place(at) != none) return place(at);
    for (auto at = text.find(' ', usual); at != none; at = text.find(' ', at + 1))
      if (place(at) != none) return place(at);
    return none;
  }

  // Takes the part of the text that is passed to the library at once. A text above 64 KiB is divided as above, so that
  // memory does not grow with it. Where its first MiB has no such space, a longer text is divided at the last white
  // space there, else at a boundary between characters.
  std::string_view take_part(std::string_view& text) const {
    constexpr std::size_t short_text = std::size_t{64} << 10, most = std::size_t{1} << 20;
    const auto take = [&](std::size_t part) {
      const auto taken = text.substr(0, part);
      text.remove_prefix(part);
      return taken;
    };
    if (text.size() <= short_text) return take(text.size());
    const auto first = text.substr(0, most);
    const auto at = place_at_space(first.substr(0, std::min(most, text.size() - 1)));
    if (at != std::string_view::npos) return take(at);
    if (text.size() <= most) return take(text.size());
    const auto white = first.find_last_of(" \n\t\r");
    if (white != std::string_view::npos && white > 0) return take(white + (space_behind_words_ ? 1 : 0));
    auto n = most;
    while (n > 1 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
    return take(n);
  }

  std::string path_, model_;
  Processor processor_;
  struct Reader {
    std::once_flag made;
    Processor processor;
  };
  mutable std::array<Reader, 2> readers_;
  bool removes_space_ = false;  // white space at the ends of a text
  bool space_behind_words_ = false, divides_at_space_ = false;
  std::uint32_t crc_ = 0;
  std::int32_t end_ = 0, begin_ = -1, mask_ = -1;
  bool own_end_ = false;
};

// Whether the model is JSON. A SentencePiece model begins with the tag of its first field, a line feed. The field's
// length follows, which may equal an opening brace. Then comes the tag of another field, never a quotation mark.
bool is_json(std::string_view model) {
  const auto text = without_space(model);
  if (!text.starts_with('{')) return false;
  return !model.starts_with('\n') || without_space(text.substr(1)).find_first_of("\"}") == 0;
}

// The JSON of the file `name` beside the model's file; null where there is none.
nlohmann::json object_beside(const std::string& path, const char* name) {
  const auto file = (std::filesystem::path(path).parent_path() / name).string();
  if (base::file_size(file) < 0) return {};
  return base::parse_json<nlohmann::json>(base::read_file(file, base::largest_description), file);
}

nlohmann::json value_of(const nlohmann::json& object, const char* key) {
  return object.is_object() ? object.value(key, nlohmann::json()) : nlohmann::json();
}

// A token in a tokenizer_config.json is its text, or an object that contains the text.
nlohmann::json text_of_token(const nlohmann::json& token) {
  return token.is_object() ? value_of(token, "content") : token;
}

constexpr const char* where_tokenizers_are =
    "the tokenizer.json or tokenizer.model of a published model, from its folder on Hugging Face; spm_train makes a "
    "new one; bytes needs none";

[[noreturn]] void refuse_folder(const std::string& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (const auto file = folder + "/" + name; base::file_size(file) >= 0)
      throw base::InputError(fmt::format("tokenizer {} is a folder", folder), base::text("$tokenizer {}", file));
  throw base::InputError(fmt::format("tokenizer {} is a folder without tokenizer.json or tokenizer.model", folder),
                         where_tokenizers_are);
}

}  // namespace

void Tokenizer::encode_part(std::string_view text, const Before&, std::vector<std::int32_t>& out) const {
  encode(text, out);
}

void Tokenizer::encode_narrow(std::string_view text, std::vector<std::uint16_t>& out) const {
  std::vector<std::int32_t> tokens;
  encode(text, tokens);
  out.insert(out.end(), tokens.begin(), tokens.end());
}

std::optional<std::int32_t> id_of_digits(std::string_view text) {
  std::int32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || text.starts_with('-')) return {};
  return id;
}

base::InputError no_such_token(const std::string& path, const std::string& token, std::vector<std::string> names) {
  constexpr std::size_t shown = 8;
  const bool more = names.size() > shown;
  names.resize(std::min(names.size(), shown));
  for (auto& name : names) name = base::excerpt(name);
  return base::InputError(fmt::format("tokenizer {} has no token {}", base::one_line(path), base::excerpt(token)),
                          names.empty() ? "an id in digits names any token"
                                        : fmt::format("it has {}{}; an id in digits names any token",
                                                      fmt::join(names, ", "), more ? " and others" : ""));
}

base::InputError no_special_token(const std::string& path) {
  return base::InputError(
      base::text("$special-tokens text: tokenizer {} finds no special token in text", base::one_line(path)),
      "leave it out; a tokenizer.json may have such tokens");
}

DocumentTokens document_tokens(std::int32_t end, std::int32_t begin) {
  return {end < 0 ? std::string() : fmt::format("{}", end), begin < 0 ? std::string() : fmt::format("{}", begin),
          false};
}

std::vector<EndBeside> ends_beside(const std::string& path) {
  if (path == "bytes") return {};
  const auto read = [&](const char* name, const char* key) { return value_of(object_beside(path, name), key); };
  std::vector<EndBeside> ends;
  auto found = text_of_token(read("tokenizer_config.json", "eos_token"));
  if (found.is_string() && found != "")
    ends.push_back({found.get<std::string>(), "eos_token of tokenizer_config.json"});
  try {
    found = read("config.json", "eos_token_id");
  } catch (const base::InputError&) {  // the file belongs to another program
    return ends;
  }
  if (found.is_array() && !found.empty()) found = nlohmann::json(found.front());
  if (found.is_number_unsigned()) ends.push_back({found.dump(), "eos_token_id of config.json"});
  return ends;
}

BeginBeside begin_beside(const std::string& path) {
  if (path == "bytes") return {};
  const auto config = object_beside(path, "tokenizer_config.json");
  const auto added = value_of(config, "add_bos_token"), token = text_of_token(value_of(config, "bos_token"));
  return {added.is_boolean() ? std::optional(added.get<bool>()) : std::nullopt,
          token.is_string() ? token.get<std::string>() : std::string()};
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& bytes_or_path, const DocumentTokens& around) {
  if (bytes_or_path == "bytes") {
    if ((!around.end.empty() && around.end != "256") || !around.begin.empty())
      throw base::InputError("tokenizer bytes has one token that is no byte: 256, which ends documents",
                             base::text("leave $end-of-document and $begin-of-document out"));
    if (around.special_as_text) throw no_special_token("bytes");
    return std::make_unique<Bytes>();
  }
  std::error_code error;
  if (!std::filesystem::exists(bytes_or_path, error))
    throw base::InputError(fmt::format("tokenizer {} does not exist", bytes_or_path), where_tokenizers_are);
  if (std::filesystem::is_directory(bytes_or_path, error)) refuse_folder(base::without_slashes(bytes_or_path));
  return tokenizer_of_model(bytes_or_path, base::read_file(bytes_or_path), around);
}

std::unique_ptr<Tokenizer> tokenizer_of_model(const std::string& path, std::string model,
                                              const DocumentTokens& around) {
  if (is_json(model)) return json_tokenizer::make_json_tokenizer(path, std::move(model), around);
  if (around.special_as_text) throw no_special_token(path);
  return std::make_unique<SentencePiece>(path, std::move(model), around);
}

std::string set_tokenizer_name(const Tokenizer& tokenizer) {
  return is_json(tokenizer.model()) ? "tokenizer.json" : "tokenizer.model";
}

}  // namespace trainyard::data
