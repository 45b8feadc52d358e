// Reading a prompt and refusing what the model could not continue.
#include "tools/generate/prompt.h"

#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/data/document_source.h"
#include "tools/generate/utf8.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace trainyard::generate {

namespace {

constexpr std::size_t largest_prompt = 16 << 20;

std::string without_end(std::string text, const std::string& name) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty())
    throw base::InputError(fmt::format("{}: the prompt is empty", name),
                           "leave the prompt out to begin a new document");
  return text;
}

std::string read_all(std::FILE* file, const std::string& name) {
  std::string text;
  char buffer[65536];
  while (const auto n = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, n);
    if (text.size() > largest_prompt)
      throw base::InputError(fmt::format("{}: a prompt of more than {} MiB", name, largest_prompt >> 20),
                             "give the part that matters, it must fit into the model's context");
  }
  if (std::ferror(file) != 0) throw base::InputError(fmt::format("{}: cannot be read: {}", name, std::strerror(errno)));
  return without_end(std::move(text), name);
}

// The first character that has no token of its own, and where.
std::string lacking(const data::Tokenizer& tokenizer, std::string_view prompt) {
  for (std::size_t at = 0; at < prompt.size();) {
    const auto head = utf8_head(prompt.substr(at));
    std::vector<std::int32_t> tokens;
    tokenizer.encode(prompt.substr(at, head.bytes), tokens);
    if (std::find(tokens.begin(), tokens.end(), tokenizer.unknown()) != tokens.end()) {
      if (head.kind == Character::whole)
        return fmt::format("'{}' at byte {} of the prompt", data::source_name(prompt.substr(at, head.bytes)), at);
      return fmt::format("byte {} of the prompt, 0x{:02x}, which is no UTF-8", at,
                         static_cast<unsigned char>(prompt[at]));
    }
    at += head.bytes;
  }
  return "a part of the prompt";
}

}  // namespace

std::string read_prompt(const std::optional<std::string>& text, const std::optional<std::string>& file) {
  if (text && file) throw base::UsageError("both --prompt and --prompt-file are given", "give one of them");
  if (text && *text == "-") return read_all(stdin, "standard input");
  if (text && text->empty())
    throw base::UsageError("the prompt is empty", "leave --prompt out to begin a new document");
  if (text) return *text;
  if (!file) return {};
  if (*file == "-") return read_all(stdin, "standard input");
  return without_end(base::read_file(*file, largest_prompt), *file);
}

std::vector<std::int32_t> prompt_tokens(const data::Tokenizer& tokenizer, std::string_view prompt,
                                        std::int64_t context) {
  const auto begin = tokenizer.begin_of_document();
  std::vector<std::int32_t> tokens{begin >= 0 ? begin : tokenizer.end_of_document()};
  tokenizer.encode(prompt, tokens);
  if (static_cast<std::int64_t>(tokens.size()) > context)
    throw base::InputError(
        fmt::format(
            "the prompt has {} tokens, the model's context has room for {} behind the one that begins a document",
            tokens.size() - 1, context - 1),
        "give the end of the prompt alone: the model sees no more");
  if (tokenizer.unknown() >= 0 && std::find(tokens.begin() + 1, tokens.end(), tokenizer.unknown()) != tokens.end())
    throw base::InputError(
        fmt::format("tokenizer {} has no token for {}", tokenizer.name(), lacking(tokenizer, prompt)),
        "leave it out, or write it with characters of the training text");
  return tokens;
}

}  // namespace trainyard::generate
