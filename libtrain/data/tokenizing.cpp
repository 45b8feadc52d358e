// Encodes the documents of stretches, on the threads of a StretchTeam.
#include "libtrain/data/tokenizing.h"

#include "libtrain/base/index.h"
#include "libtrain/base/random.h"
#include "libtrain/data/encoded_chat.h"
#include "libtrain/data/encoded_pair.h"
#include "libtrain/data/stretch_team.h"

#include <algorithm>
#include <optional>

namespace trainyard::data {

namespace {

constexpr std::int64_t most_narrow = 65536;  // the largest vocabulary for 16-bit tokens

class DocumentEncoder {
 public:
  DocumentEncoder(const DocumentSource& source, const Tokenizer& tokenizer, const TokenizingOptions& options)
      : tokenizer_(tokenizer), options_(options) {
    if (source.options().chat) chat_.emplace(*source.options().chat, tokenizer);
    if (source.options().pairs) pair_.emplace(*source.options().pairs, tokenizer);
  }

  void make(DocumentSplitter& splitter, const DocumentSource::SourceStretch& read, Findings& findings,
            TokenizedStretch& made) const {
    made.documents.clear();
    made.narrow.clear();
    made.wide.clear();
    made.answers.clear();
    made.fields.clear();
    made.text_bytes = made.unknown_tokens = 0;
    made.source = read.source;
    const bool narrow = tokenizer_.vocabulary() <= most_narrow;
    const auto end = tokenizer_.end_of_document(), begin = tokenizer_.begin_of_document();
    const auto keep_fields = [&] {
      const auto fields = splitter.fields();
      made.fields.insert(made.fields.end(), fields.begin(), fields.end());
    };
    const auto document = [&](std::string_view text) {
      keep_fields();
      const auto before = narrow ? made.narrow.size() : made.wide.size();
      if (begin >= 0) narrow ? made.narrow.push_back(static_cast<std::uint16_t>(begin)) : made.wide.push_back(begin);
      if (narrow) {
        tokenizer_.encode_narrow(text, made.narrow);
        made.narrow.push_back(static_cast<std::uint16_t>(end));
      } else {
        tokenizer_.encode(text, made.wide);
        made.wide.push_back(end);
      }
      made.text_bytes += static_cast<std::int64_t>(text.size());
      made.documents.push_back({split_of_document(text, options_.validation),
                                static_cast<std::int64_t>((narrow ? made.narrow.size() : made.wide.size()) - before), 0,
                                options_.hashes ? hash_of_text(text) : TextHash()});
    };
    std::vector<std::int32_t> tokens;
    // Adds the document that `tokens` has.
    const auto add = [&](std::string_view key, std::int64_t answers) {
      keep_fields();
      if (narrow) made.narrow.insert(made.narrow.end(), tokens.begin(), tokens.end());
      else made.wide.insert(made.wide.end(), tokens.begin(), tokens.end());
      made.documents.push_back({split_of_document(key, options_.validation), std::ssize(tokens), answers,
                                options_.hashes ? hash_of_text(key) : TextHash()});
    };
    const auto conversation = [&](std::span<const ChatMessage> messages) {
      const auto answers = std::ssize(made.answers);
      tokens.clear();
      chat_->encode(messages, tokens, made.answers);
      for (const auto& message : messages) made.text_bytes += std::ssize(message.content);
      add(key_of_conversation(messages), std::ssize(made.answers) - answers);
    };
    const auto pair = [&](const TextPair& pair) {
      AnswerSpan target;
      auto reason = pair_->encode(pair, tokens, target);
      if (!reason.empty()) return reason;
      made.answers.push_back(target);
      made.text_bytes += std::ssize(pair.source) + std::ssize(pair.target);
      add(key_of_pair(pair), 1);
      return reason;
    };
    splitter.split(read.stretch, read.rules, document, findings, conversation, pair);
    if (const auto unknown = tokenizer_.unknown(); unknown >= 0)
      made.unknown_tokens = std::count(made.narrow.begin(), made.narrow.end(), unknown) +
                            std::count(made.wide.begin(), made.wide.end(), unknown);
  }

 private:
  const Tokenizer& tokenizer_;
  const TokenizingOptions& options_;
  std::optional<EncodedChat> chat_;
  std::optional<EncodedPair> pair_;
};

}  // namespace

Split split_of_document(std::string_view text, double share) {
  const auto place = static_cast<double>(base::site_hash("validation", text) >> 11) * 0x1.0p-53;
  return place < share ? Split::validation : Split::train;
}

void TokenizedStretch::for_each(const Each& each) const {
  std::size_t at = 0, answer = 0, field = 0;
  const auto kept = documents.empty() ? 0 : fields.size() / documents.size();
  for (const auto& d : documents) {
    const void* tokens = narrow.empty() ? static_cast<const void*>(wide.data() + at) : narrow.data() + at;
    each(d, tokens,
         {std::span(answers).subspan(answer, base::size(d.answers)), d.hash, std::span(fields).subspan(field, kept)});
    at += base::size(d.tokens), answer += base::size(d.answers), field += kept;
  }
}

std::int64_t TokenizedStretch::unknown_of(const Document& document, const void* tokens, std::int32_t token) const {
  if (token < 0) return 0;
  const auto count = [&](const auto* from) { return std::count(from, from + document.tokens, token); };
  return narrow.empty() ? count(static_cast<const std::int32_t*>(tokens))
                        : count(static_cast<const std::uint16_t*>(tokens));
}

void tokenize(DocumentSource& source, const Tokenizer& tokenizer, const TokenizingOptions& options,
              const std::function<void(const TokenizedStretch&)>& take,
              const std::function<void(const Refusal&)>& refuse, const std::function<void(std::int64_t)>& progress) {
  const DocumentEncoder encoder(source, tokenizer, options);
  StretchTeam<TokenizedStretch> team(
      source, {options.threads, options.stretch_bytes, "tokenizer"},
      [&](DocumentSplitter& splitter, const DocumentSource::SourceStretch& read, Findings& findings,
          TokenizedStretch& made) { encoder.make(splitter, read, findings, made); });
  team.run(take, refuse, progress);
}

}  // namespace trainyard::data
