// The kinds of decoders, one class each, and their form in the file.
#include "libtrain/data/json_tokenizer/decoder.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/pieces/model.h"

#include <array>
#include <optional>
#include <utility>

namespace trainyard::data::json_tokenizer {

namespace {

using Object = base::SortedJsonObject;
using Texts = std::vector<std::string>;

constexpr int deepest_decoder = 4;

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  auto at = text.find(what);
  if (at == std::string::npos) return;
  std::string out;
  std::size_t done = 0;
  for (; at != std::string::npos; at = text.find(what, done)) {
    out.append(text, done, at - done).append(with);
    done = at + what.size();
  }
  text = out.append(text, done);
}

class DecodeReplace : public DecoderStep {
 public:
  DecodeReplace(Finder finder, std::string content) : finder_(std::move(finder)), content_(std::move(content)) {}
  void apply(Texts& tokens) const override {
    for (auto& token : tokens) {
      if (!is_utf8(token)) continue;  // bytes of a character that is cut
      std::string out;
      std::size_t done = 0;
      finder_.each_match(token, [&](std::size_t begin, std::size_t end) {
        out.append(token, done, begin - done) += content_;
        done = end;
      });
      if (done > 0 || !out.empty()) token = out.append(token, done);
    }
  }

 private:
  Finder finder_;
  std::string content_;
};

class DecodeByteTokens : public DecoderStep {
 public:
  void apply(Texts& tokens) const override {
    for (auto& token : tokens)
      if (const int byte = pieces::byte_of_token(token); byte >= 0) token.assign(1, static_cast<char>(byte));
  }
};

class DecodeFuse : public DecoderStep {
 public:
  void apply(Texts& tokens) const override {
    std::string all;
    for (const auto& token : tokens) all += token;
    tokens = {std::move(all)};
  }
};

class DecodeStrip : public DecoderStep {
 public:
  DecodeStrip(std::string content, std::int64_t start, std::int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(Texts& tokens) const override {
    for (auto& token : tokens) {
      std::string_view rest = token;
      for (auto n = start_; n > 0 && rest.starts_with(content_); --n) rest.remove_prefix(content_.size());
      for (auto n = stop_; n > 0 && rest.ends_with(content_); --n) rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  std::int64_t start_, stop_;
};

class DecodeMetaspace : public DecoderStep {
 public:
  DecodeMetaspace(std::string mark, bool begins) : mark_(std::move(mark)), begins_(begins) {}
  void apply(Texts& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], mark_, i == 0 && begins_ ? "" : " ");
  }

 private:
  std::string mark_;
  bool begins_;  // the first token's mark was put there
};

class DecodeWordPiece : public DecoderStep {
 public:
  DecodeWordPiece(std::string prefix, bool cleans) : prefix_(std::move(prefix)), cleans_(cleans) {}
  void apply(Texts& tokens) const override {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 11> cleaning = {{{" .", "."},
                                                                                         {" ?", "?"},
                                                                                         {" !", "!"},
                                                                                         {" ,", ","},
                                                                                         {" ' ", "'"},
                                                                                         {" n't", "n't"},
                                                                                         {" 'm", "'m"},
                                                                                         {" do not", " don't"},
                                                                                         {" 's", "'s"},
                                                                                         {" 've", "'ve"},
                                                                                         {" 're", "'re"}}};
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      auto& token = tokens[i];
      if (i > 0 && token.starts_with(prefix_)) token.erase(0, prefix_.size());
      else if (i > 0) token.insert(0, 1, ' ');
      if (!cleans_) continue;
      for (const auto& [what, with] : cleaning) replace_all(token, what, with);
    }
  }

 private:
  std::string prefix_;
  bool cleans_;
};

class DecodeSuffix : public DecoderStep {
 public:
  explicit DecodeSuffix(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(Texts& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

class DecodeByteLevel : public DecoderStep {
 public:
  void apply(Texts& tokens) const override {
    std::string all;
    for (const auto& token : tokens) {
      const auto bytes = is_utf8(token) ? bpe::bytes_of(token) : std::nullopt;
      all += bytes ? *bytes : token;
    }
    tokens = {std::move(all)};
  }
};

using Steps = std::vector<std::unique_ptr<DecoderStep>>;

std::unique_ptr<DecoderStep> read_metaspace_decoder(Object& o) {
  const auto mark = o.has("replacement") ? o.text("replacement") : std::string("\u2581");
  const auto scheme = o.has("prepend_scheme") ? o.text("prepend_scheme") : std::string("always");
  const bool space = !o.has("add_prefix_space") || o.boolean("add_prefix_space");
  o.has("split"), o.has("str_rep");
  if (mark.empty()) throw base::InputError(o.where() + ": an empty replacement");
  return std::make_unique<DecodeMetaspace>(mark, scheme != "never" && space);
}

void add_decoder(const nlohmann::json& part, const std::string& where, int depth, Steps& out) {
  Object o(part, where);
  const auto type = o.text("type");
  if (type == "Sequence") {
    if (depth >= deepest_decoder)
      throw base::InputError(fmt::format("{}: sequences in sequences, more than {} deep", where, deepest_decoder));
    for (const auto& step : o.array("decoders")) add_decoder(step, where, depth + 1, out);
  } else if (type == "ByteLevel") {
    for (const char* unused : {"add_prefix_space", "trim_offsets", "use_regex"}) o.has(unused);
    out.push_back(std::make_unique<DecodeByteLevel>());
  } else if (type == "Replace") {
    auto finder = Finder::read(o, where);
    out.push_back(std::make_unique<DecodeReplace>(std::move(finder), o.text("content", 256)));
  } else if (type == "ByteFallback") {
    out.push_back(std::make_unique<DecodeByteTokens>());
  } else if (type == "Fuse") {
    out.push_back(std::make_unique<DecodeFuse>());
  } else if (type == "Strip") {
    auto content = o.text("content");
    if (content.empty()) throw base::InputError(where + ": Strip of an empty text");
    out.push_back(std::make_unique<DecodeStrip>(std::move(content), o.integer("start", 0, 1 << 20),
                                                o.integer("stop", 0, 1 << 20)));
  } else if (type == "Metaspace") {
    out.push_back(read_metaspace_decoder(o));
  } else if (type == "WordPiece") {
    const auto prefix = o.has("prefix") ? o.text("prefix") : std::string("##");
    out.push_back(std::make_unique<DecodeWordPiece>(prefix, !o.has("cleanup") || o.boolean("cleanup")));
  } else if (type == "BPEDecoder") {
    auto suffix = o.has("suffix") ? o.text("suffix") : std::string("</w>");
    if (suffix.empty()) throw base::InputError(where + ": BPEDecoder with an empty suffix");
    out.push_back(std::make_unique<DecodeSuffix>(std::move(suffix)));
  } else {
    throw base::InputError(fmt::format("{}: the decoder {} is not supported", where, base::excerpt(type)),
                           "BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip and WordPiece are, "
                           "alone or in a Sequence");
  }
  o.done();
}

}  // namespace

Decoder Decoder::read(Object& root) {
  Decoder out;
  out.joins_by_spaces_ = !root.has("decoder") || root.at("decoder").is_null();
  if (out.joins_by_spaces_) return out;
  add_decoder(root.at("decoder"), root.where() + ": decoder", 0, out.steps_);
  out.of_bytes_ = out.steps_.size() == 1 && dynamic_cast<const DecodeByteLevel*>(out.steps_[0].get()) != nullptr;
  return out;
}

std::string Decoder::text_of(std::vector<std::string> tokens) const {
  for (const auto& step : steps_) step->apply(tokens);
  std::string out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && joins_by_spaces_) out += ' ';
    out += tokens[i];
  }
  return out;
}

}  // namespace trainyard::data::json_tokenizer
