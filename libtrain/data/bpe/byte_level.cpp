// Added tokens, then the steps that split text, then merges, with a cache between steps and merges.
#include "libtrain/data/bpe/byte_level.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/data/bpe/added_tokens.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/bpe/definition.h"
#include "libtrain/data/bpe/merges.h"
#include "libtrain/data/bpe/pattern.h"
#include "libtrain/data/bpe/piece_cache.h"
#include "libtrain/data/bpe/scanner.h"
#include "libtrain/data/bpe/token_index.h"
#include "libtrain/data/bpe/tokenizer_json.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/document_source.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>

namespace trainyard::data::bpe {

namespace {

struct PrefixSpace {};
struct Punctuation {
  bool together;  // a run of punctuation stays one piece
};
struct AlphabetStep {};
// The string is a literal.
using Cutter = std::variant<Scanner, Pattern, std::string, PrefixSpace, Punctuation, AlphabetStep>;

std::vector<Cutter> cutters_of(const std::vector<Step>& steps, const std::string& where) {
  std::vector<Cutter> out;
  for (const auto& step : steps) {
    if (step.kind == Step::Kind::prefix_space) out.emplace_back(PrefixSpace{});
    else if (step.kind == Step::Kind::literal) out.emplace_back(step.text);
    else if (step.kind == Step::Kind::alphabet) out.emplace_back(AlphabetStep{});
    else if (step.kind == Step::Kind::punctuation) out.emplace_back(Punctuation{false});
    else if (step.kind == Step::Kind::punctuations) out.emplace_back(Punctuation{true});
    else if (const auto scanner = Scanner::of_pattern(step.text); scanner) out.emplace_back(*scanner);
    else out.emplace_back(std::in_place_type<Pattern>, step.text, where);
  }
  return out;
}

// Memory of one thread while it encodes.
struct Memory {
  explicit Memory(const std::vector<Cutter>& cutters) {
    for (const auto& cutter : cutters) {
      const auto* pattern = std::get_if<Pattern>(&cutter);
      patterns.push_back(pattern != nullptr ? std::optional<Pattern::Memory>(*pattern) : std::nullopt);
    }
  }
  PieceCache cache;
  Merges::Memory merges;
  std::vector<std::optional<Pattern::Memory>> patterns;  // for each step
};

// Memories that no thread uses at the moment. There are as many as threads ever encoded at once.
class Memories {
 public:
  std::unique_ptr<Memory> take(const std::vector<Cutter>& cutters) {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto one = std::move(free_.back());
        free_.pop_back();
        return one;
      }
    }
    return std::make_unique<Memory>(cutters);
  }
  void give_back(std::unique_ptr<Memory> one) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(one));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Memory>> free_;
};

class ByteLevel : public Tokenizer {
 public:
  ByteLevel(const std::string& path, std::string json, Definition definition, const DocumentTokens& around)
      : path_(path), json_(std::move(json)), crc_(base::crc32c(json_.data(), json_.size())), merges_(definition),
        added_(found_in_text(definition.added, around), definition.composes),
        cutters_(cutters_of(definition.steps, path)),
        in_alphabet_(std::any_of(definition.steps.begin(), definition.steps.end(),
                                 [](const Step& s) { return s.kind == Step::Kind::alphabet; })),
        reads_special_(!around.special_as_text) {
    tokens_ = std::move(definition.tokens);
    before_text_ = std::move(definition.before_text);
    if (definition.ignore_merges) whole_.emplace(tokens_);
    for (const auto& t : definition.added) texts_.emplace(t.id, t.text);
    if (!reads_special_ &&
        std::none_of(definition.added.begin(), definition.added.end(), [](const AddedToken& t) { return t.special; }))
      throw no_special_token(path);
    end_ = static_cast<std::int32_t>(tokens_.size());
    for (const char* name : {"</s>", "<|end_of_text|>", "<|endoftext|>"})
      for (const auto& t : definition.added)
        if (t.text == name) end_ = t.id;
    own_end_ = end_ == std::ssize(tokens_) && around.end.empty();
    if (!around.end.empty()) end_ = id_of(around.end, definition.added, std::ssize(tokens_));
    if (!around.begin.empty()) begin_ = id_of(around.begin, definition.added, std::ssize(tokens_) - 1);
    for (const char* name : {"<mask>", "[MASK]"})
      for (const auto& t : definition.added)
        if (t.text == name) mask_ = t.id;
  }

  std::string name() const override { return std::filesystem::path(path_).filename().string(); }
  std::uint32_t crc32c() const override { return crc_; }
  std::string source() const override { return path_; }
  std::string_view model() const override { return json_; }
  std::int64_t vocabulary() const override { return std::max<std::int64_t>(std::ssize(tokens_), end_ + 1); }
  std::int32_t end_of_document() const override { return end_; }
  std::int32_t begin_of_document() const override { return begin_; }
  bool made_its_end() const override { return own_end_; }
  std::vector<std::int32_t> before_text() const override { return before_text_; }
  std::int32_t token_named(std::string_view name) const override { return id_named(name).value_or(-1); }
  std::string name_of_token(std::int32_t token) const override {
    if (const auto added = texts_.find(token); added != texts_.end()) return added->second;
    return token < 0 || token >= std::ssize(tokens_) ? std::string() : base::at(tokens_, token);
  }
  bool reads_special() const override { return reads_special_; }
  std::int32_t mask() const override { return mask_; }
  bool begins_word(std::int32_t token) const override {
    if (token == end_ || token == begin_ || texts_.contains(token)) return true;
    const auto text = text_of(token);
    return !text.empty() && std::string_view(" \t\r\n").find(text.front()) != std::string_view::npos;
  }

  void encode(std::string_view text, std::vector<std::int32_t>& out) const override {
    if (!is_utf8(text))
      throw base::InputError("text that is no UTF-8 cannot be cut into tokens by " + base::excerpt(name()),
                             "convert it: iconv -t UTF-8");
    auto memory = memories_.take(cutters_);
    added_.cut(
        text, [&](std::string_view part) { cut(part, 0, *memory, out); }, [&](std::int32_t id) { out.push_back(id); });
    memories_.give_back(std::move(memory));
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string out;
    for (const auto t : tokens) out += text_of(t);
    return out;
  }
  std::int64_t text_bytes(std::int32_t token, Place) const override { return std::ssize(text_of(token)); }

 private:
  static std::vector<AddedToken> found_in_text(std::vector<AddedToken> added, const DocumentTokens& around) {
    if (around.special_as_text) std::erase_if(added, [](const AddedToken& t) { return t.special; });
    return added;
  }

  std::int32_t id_of(const std::string& token, const std::vector<AddedToken>& added, std::int64_t last) const {
    if (const auto id = id_of_digits(token); id && *id <= last) return *id;
    if (const auto id = id_named(token)) return *id;
    std::vector<std::string> names;
    for (const auto& t : added)
      if (t.special) names.push_back(t.text);
    throw no_such_token(path_, token, std::move(names));
  }

  // The added token of this text, else the token with these bytes.
  std::optional<std::int32_t> id_named(std::string_view name) const {
    if (name.empty()) return {};
    for (const auto& [id, text] : texts_)
      if (text == name) return id;
    const auto found = std::find(tokens_.begin(), tokens_.end(), name);
    return found == tokens_.end() ? std::nullopt : std::optional(static_cast<std::int32_t>(found - tokens_.begin()));
  }

  std::string_view text_of(std::int32_t token) const {
    if (token < 0 || token >= std::ssize(tokens_) || token == end_ || token == begin_) return {};
    const auto added = texts_.find(token);
    return added != texts_.end() ? std::string_view(added->second) : base::at(tokens_, token);
  }

  void cut(std::string_view piece, std::size_t step, Memory& memory, std::vector<std::int32_t>& out) const {
    if (step == cutters_.size())
      return in_alphabet_ ? encode_piece(*bytes_of(piece), memory, out) : encode_piece(piece, memory, out);
    const auto go_on = [&](std::string_view part) {
      if (!part.empty()) cut(part, step + 1, memory, out);
    };
    const auto& cutter = cutters_[step];
    if (const auto* scanner = std::get_if<Scanner>(&cutter)) {
      const auto *at = piece.data(), *end = at + piece.size();
      while (at != end) {
        const auto* next = scanner->piece(at, end);
        go_on({at, base::size(next - at)});
        at = next;
      }
    } else if (const auto* pattern = std::get_if<Pattern>(&cutter)) {
      cut_by_pattern(*pattern, *memory.patterns[step], piece, go_on);
    } else if (std::holds_alternative<AlphabetStep>(cutter)) {
      std::string written;
      for (const char c : piece) written += character_of(static_cast<unsigned char>(c));
      go_on(written);
    } else if (const auto* marks = std::get_if<Punctuation>(&cutter)) {
      cut_by_punctuation(*marks, piece, go_on);
    } else if (const auto* literal = std::get_if<std::string>(&cutter)) {
      std::size_t done = 0;
      for (auto at = piece.find(*literal); at != std::string_view::npos; at = piece.find(*literal, done)) {
        go_on(piece.substr(done, at - done));
        go_on(piece.substr(at, literal->size()));
        done = at + literal->size();
      }
      go_on(piece.substr(done));
    } else if (piece.starts_with(' ')) {
      go_on(piece);
    } else {
      go_on(' ' + std::string(piece));
    }
  }

  template <class GoOn> static void cut_by_punctuation(Punctuation how, std::string_view piece, const GoOn& go_on) {
    const char *at = piece.data(), *const end = at + piece.size(), *done = at;
    const auto part = [](const char* from, const char* to) { return std::string_view(from, base::size(to - from)); };
    while (at != end) {
      const auto* here = at;
      if (!is_punctuation(next_code_point(at))) continue;
      for (const auto* next = at; how.together && next != end && is_punctuation(next_code_point(next));) at = next;
      go_on(part(done, here));
      go_on(part(here, at));
      done = at;
    }
    go_on(part(done, end));
  }

  template <class GoOn> static void cut_by_pattern(const Pattern& pattern, const Pattern::Memory& memory,
                                                   std::string_view piece, const GoOn& go_on) {
    std::size_t done = 0, from = 0;
    while (from <= piece.size()) {
      const auto match = pattern.find(piece, from, memory);
      if (!match) break;
      from = match->end;
      // A match of length 0 splits the text; the search continues after the next character.
      if (match->begin == match->end) {
        const auto* next = piece.data() + from;
        if (from < piece.size()) next_code_point(next);
        from = from < piece.size() ? base::size(next - piece.data()) : from + 1;
      }
      go_on(piece.substr(done, match->begin - done));
      go_on(piece.substr(match->begin, match->end - match->begin));
      done = match->end;
    }
    go_on(piece.substr(done));
  }

  void encode_piece(std::string_view piece, Memory& memory, std::vector<std::int32_t>& out) const {
    if (piece.size() > PieceCache::longest) return encode_uncached(piece, memory, out);
    auto [entry, hit] = memory.cache.place(piece);
    if (hit) {
      for (std::uint32_t i = 0; i < entry.count; ++i) out.push_back(entry.tokens[i]);
      return;
    }
    const auto before = out.size();
    encode_uncached(piece, memory, out);
    const auto count = out.size() - before;
    if (count > PieceCache::most_tokens) {
      entry.key = {};
      return;
    }
    entry.count = static_cast<std::uint32_t>(count);
    std::copy(out.end() - static_cast<std::ptrdiff_t>(count), out.end(), entry.tokens.begin());
  }

  void encode_uncached(std::string_view piece, Memory& memory, std::vector<std::int32_t>& out) const {
    if (whole_)
      if (const auto found = whole_->find(piece); found) return out.push_back(*found);
    merges_.encode(piece, memory.merges, out);
  }

  std::string path_, json_;
  std::uint32_t crc_;
  Merges merges_;
  AddedTokens added_;
  std::vector<Cutter> cutters_;
  bool in_alphabet_;                                     // the last step's output is in the alphabet
  std::vector<std::string> tokens_;                      // bytes of each token
  std::optional<TokenIndex> whole_;                      // with ignore_merges
  std::unordered_map<std::int32_t, std::string> texts_;  // of added tokens
  std::vector<std::int32_t> before_text_;                // from the post_processor
  std::int32_t end_ = 0, begin_ = -1, mask_ = -1;
  bool own_end_ = false, reads_special_;
  mutable Memories memories_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_level(const std::string& path, std::string json, const DocumentTokens& around) {
  if (std::ssize(json) > largest_tokenizer_json)
    throw base::InputError(fmt::format("{}: a tokenizer.json of more than {} MiB", path, largest_tokenizer_json >> 20),
                           "is it the right file?");
  auto definition = definition_from_json(json, path);
  return std::make_unique<ByteLevel>(path, std::move(json), std::move(definition), around);
}

}  // namespace trainyard::data::bpe
