// Added tokens and normalizers, then the steps that divide text, then the model, with a cache before it.
#include "libtrain/data/json_tokenizer/json_tokenizer.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/bpe/piece_cache.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/json_tokenizer/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace trainyard::data::json_tokenizer {

namespace {

constexpr std::string_view white_space = " \t\r\n";

// Memory of one thread while it encodes.
struct EncodingMemory {
  explicit EncodingMemory(const Parts& parts) : steps(parts.cutters.size()), model(parts.model->memory()) {}
  bpe::PieceCache cache;
  std::vector<CutterMemory> steps;
  std::unique_ptr<pieces::Model::Memory> model;
};

// Memories that no thread uses at the moment. There are as many as threads ever encoded at once.
class EncodingMemories {
 public:
  std::unique_ptr<EncodingMemory> take(const Parts& parts) {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto one = std::move(free_.back());
        free_.pop_back();
        return one;
      }
    }
    return std::make_unique<EncodingMemory>(parts);
  }
  void give_back(std::unique_ptr<EncodingMemory> one) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(one));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodingMemory>> free_;
};

class JsonTokenizer : public Tokenizer {
 public:
  JsonTokenizer(const std::string& path, std::string json, Parts parts, const DocumentTokens& around)
      : path_(path), json_(std::move(json)), crc_(base::crc32c(json_.data(), json_.size())), parts_(std::move(parts)),
        added_(parts_.added, parts_.normalizers,
               around.special_as_text ? TokenTree::Special::is_text : TokenTree::Special::is_token, path),
        reads_special_(!around.special_as_text) {
    for (const auto& t : parts_.added) texts_.emplace(t.id, t.text);
    if (!reads_special_ &&
        std::none_of(parts_.added.begin(), parts_.added.end(), [](const AddedToken& t) { return t.special; }))
      throw no_special_token(path);
    const auto known_end = sign_named({"<|endoftext|>", "<|end_of_text|>", "<eos>", "</s>", "[SEP]"});
    end_ = known_end.value_or(count());
    own_end_ = end_ == count() && around.end.empty();
    if (!around.end.empty()) end_ = id_of(around.end, count());
    if (!around.begin.empty()) begin_ = id_of(around.begin, count() - 1);
    mask_ = sign_named({"[MASK]", "<mask>"}).value_or(-1);
    probe_ = plain_token();
  }

  std::string name() const override { return std::filesystem::path(path_).filename().string(); }
  std::string kind() const override { return parts_.kind; }
  std::uint32_t crc32c() const override { return crc_; }
  std::string source() const override { return path_; }
  std::string_view model() const override { return json_; }
  std::int64_t vocabulary() const override { return std::max<std::int64_t>(count(), end_ + 1); }
  std::int32_t end_of_document() const override { return end_; }
  std::int32_t begin_of_document() const override { return begin_; }
  bool made_its_end() const override { return own_end_; }
  std::vector<std::int32_t> before_text() const override { return parts_.before_text; }
  std::int32_t token_named(std::string_view name) const override { return id_named(name).value_or(-1); }
  std::string name_of_token(std::int32_t token) const override {
    if (const auto added = texts_.find(token); added != texts_.end()) return added->second;
    return token < 0 || token >= count() ? std::string() : base::at(parts_.tokens, token);
  }
  bool reads_special() const override { return reads_special_; }
  std::int32_t unknown() const override { return parts_.unknown; }
  std::int32_t mask() const override { return mask_; }
  bool begins_word(std::int32_t token) const override {
    if (token == end_ || token == begin_ || token == mask_ || texts_.contains(token)) return true;
    const auto text = text_of(token);
    const auto& [sign, mark] = parts_.words;
    if (text.empty()) return false;
    if (sign == WordBeginning::Sign::no_prefix) return mark.empty() || !text.starts_with(mark);
    if (sign == WordBeginning::Sign::mark && text.starts_with(mark)) return true;
    const int byte = parts_.tokens_are_bytes ? -1 : pieces::byte_of_token(text);
    return white_space.find(byte < 0 ? text.front() : static_cast<char>(byte)) != std::string_view::npos;
  }

  void encode(std::string_view text, std::vector<std::int32_t>& out) const override { encode_part(text, {}, out); }

  void encode_part(std::string_view text, const Before& before, std::vector<std::int32_t>& out) const override {
    if (!is_utf8(text))
      throw base::InputError("text that is no UTF-8 cannot be cut into tokens by " + base::excerpt(name()),
                             "convert it: iconv -t UTF-8");
    auto memory = memories_.take(parts_);
    added_.cut(
        text, before.text, before.document_begins,
        [&](const AddedTokens::Part& part) {
          const auto begin = part.at_start ? Begin::document : goes_on(part, *memory) ? Begin::nothing : Begin::text;
          run_cutters(parts_.cutters, 0, part.text, begin, memory->steps,
                      [&](std::string_view piece) { encode_cut(piece, *memory, out); });
        },
        [&](std::int32_t id) { out.push_back(id); });
    memories_.give_back(std::move(memory));
  }

  TakesSpace takes_space(std::int32_t token) const override {
    for (const auto& t : parts_.added)
      if (t.id == token) return {t.left_strip, t.right_strip};
    return {};
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    if (parts_.tokens_are_bytes) {
      std::string out;
      for (const auto t : tokens) out += text_of(t);
      return out;
    }
    std::vector<std::string> texts;
    for (const auto t : tokens)
      if (const auto text = text_of(t); !text.empty()) texts.emplace_back(text);
    return texts.empty() ? std::string() : parts_.decoder.text_of(std::move(texts));
  }

  std::int64_t text_bytes(std::int32_t token, Place place) const override {
    if (parts_.tokens_are_bytes || text_of(token).empty()) return std::ssize(text_of(token));
    if (token == parts_.unknown) return -1;
    if (place == Place::start || probe_ < 0) return std::ssize(decode({&token, 1}));
    const std::array<std::int32_t, 2> both = {probe_, token};
    return std::ssize(decode(both)) - std::ssize(decode({&probe_, 1}));
  }

 private:
  // Whether the piece that a part begins lies in one with text before it, where something would be put before pieces.
  bool goes_on(const AddedTokens::Part& part, EncodingMemory& memory) const {
    if (part.before.empty()) return false;
    const auto steps = steps_before_prefix(parts_.cutters);
    if (steps.empty() || steps.size() == parts_.cutters.size()) return true;
    std::string joint(part.before);
    joint += part.text;
    const auto* border = joint.data() + part.before.size();
    bool found = false;
    run_cutters(steps, 0, joint, Begin::text, memory.steps, [&](std::string_view piece) {
      found = found || (piece.data() < border && piece.data() + piece.size() > border);
    });
    return found;
  }

  std::int32_t count() const { return static_cast<std::int32_t>(parts_.tokens.size()); }

  // A special token of one of these names, else another added one: Gemma has <eos>, and </s> as a tag of HTML. Else one
  // that a vocabulary without an alphabet of bytes has.
  std::optional<std::int32_t> sign_named(std::initializer_list<std::string_view> names) const {
    for (const bool special : {true, false})
      for (const auto name : names)
        for (const auto& t : parts_.added)
          if (t.text == name && t.special == special) return t.id;
    if (parts_.tokens_are_bytes) return {};
    for (const auto name : names)
      if (const auto id = id_named(name)) return id;
    return {};
  }

  // A token of letters alone: its text does not depend on what is around it.
  std::int32_t plain_token() const {
    if (parts_.tokens_are_bytes) return -1;
    for (std::int32_t id = 0; id < count(); ++id)
      if (const auto text = text_of(id);
          id != parts_.unknown && !texts_.contains(id) && !text.empty() &&
          std::all_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
        return id;
    return -1;
  }

  std::int32_t id_of(const std::string& token, std::int64_t last) const {
    if (const auto id = id_of_digits(token); id && *id <= last) return *id;
    if (const auto id = id_named(token)) return *id;
    std::vector<std::string> names;
    for (const auto& t : parts_.added)
      if (t.special) names.push_back(t.text);
    throw no_such_token(path_, token, std::move(names));
  }

  // The added token of this text, else the token with these bytes.
  std::optional<std::int32_t> id_named(std::string_view name) const {
    if (name.empty()) return {};
    for (const auto& [id, text] : texts_)
      if (text == name) return id;
    const auto& tokens = parts_.tokens;
    const auto found = std::find(tokens.begin(), tokens.end(), name);
    return found == tokens.end() ? std::nullopt : std::optional(static_cast<std::int32_t>(found - tokens.begin()));
  }

  // The bytes of byte-level BPE; in other kinds what the decoder gets.
  std::string_view text_of(std::int32_t token) const {
    if (token < 0 || token >= count() || token == end_ || token == begin_) return {};
    const auto added = texts_.find(token);
    return added != texts_.end() ? std::string_view(added->second) : base::at(parts_.tokens, token);
  }

  void encode_cut(std::string_view piece, EncodingMemory& memory, std::vector<std::int32_t>& out) const {
    if (parts_.writes_alphabet) encode_piece(*bpe::bytes_of(piece), memory, out);
    else encode_piece(piece, memory, out);
  }

  void encode_piece(std::string_view piece, EncodingMemory& memory, std::vector<std::int32_t>& out) const {
    if (piece.size() > bpe::PieceCache::longest) return parts_.model->encode(piece, *memory.model, out);
    auto [entry, hit] = memory.cache.place(piece);
    if (hit) {
      for (std::uint32_t i = 0; i < entry.count; ++i) out.push_back(entry.tokens[i]);
      return;
    }
    entry.key = {};  // until the tokens are there: the model may throw
    const auto before = out.size();
    parts_.model->encode(piece, *memory.model, out);
    const auto n = out.size() - before;
    if (n > bpe::PieceCache::most_tokens) return;
    memory.cache.place(piece);
    entry.count = static_cast<std::uint32_t>(n);
    std::copy(out.end() - static_cast<std::ptrdiff_t>(n), out.end(), entry.tokens.begin());
  }

  std::string path_, json_;
  std::uint32_t crc_;
  Parts parts_;
  AddedTokens added_;
  std::unordered_map<std::int32_t, std::string> texts_;  // of added tokens
  std::int32_t end_ = 0, begin_ = -1, mask_ = -1, probe_ = -1;
  bool own_end_ = false, reads_special_;
  mutable EncodingMemories memories_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_json_tokenizer(const std::string& path, std::string json,
                                               const DocumentTokens& around) {
  if (std::ssize(json) > largest_tokenizer_json)
    throw base::InputError(fmt::format("{}: a tokenizer.json of more than {} MiB", path, largest_tokenizer_json >> 20),
                           "is it the right file?");
  auto parts = parts_from_json(json, path);
  return std::make_unique<JsonTokenizer>(path, std::move(json), std::move(parts), around);
}

}  // namespace trainyard::data::json_tokenizer
