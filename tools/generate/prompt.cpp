// Reads a prompt, and refuses one that the model cannot continue.
#include "tools/generate/prompt.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
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

std::string not_empty(std::string text, const std::string& name) {
  if (text.empty())
    throw base::InputError(fmt::format("{}: the prompt is empty", name),
                           "leave the prompt out to begin a new document");
  return text;
}

base::InputError unreadable(const std::string& name) {
  return base::InputError(fmt::format("{}: cannot be read: {}", name, std::strerror(errno)),
                          "give a text there, from a file or a pipe");
}

std::string read_all(std::FILE* file, const std::string& name) {
  std::string text;
  char buffer[65536];
  while (const auto n = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, n);
    if (text.size() > largest_prompt) throw too_long_prompt(name);
  }
  if (std::ferror(file) != 0) throw unreadable(name);
  return not_empty(std::move(text), name);
}

// Text about the first character without a token of its own, and its place.
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

std::string behind(std::size_t put) {
  if (put == 0) return {};
  return fmt::format(" of the prompt, after the {} that generate puts before it", base::counted(put, "token"));
}

}  // namespace

base::InputError too_long_prompt(const std::string& name) {
  return base::InputError(fmt::format("{}: a prompt of more than {} MiB", name, largest_prompt >> 20),
                          "give the part that matters, it must fit into the model's context");
}

std::string read_prompt(const std::optional<std::string>& text, const std::optional<std::string>& file) {
  if (text && file) throw base::UsageError("both --prompt and --prompt-file are given", "give one of them");
  if (text && *text == "-") return read_all(stdin, "standard input");
  if (text && text->empty())
    throw base::UsageError("the prompt is empty", "leave --prompt out to begin a new document");
  if (text) return *text;
  if (!file) return {};
  if (*file == "-") return read_all(stdin, "standard input");
  return not_empty(base::read_file(*file, largest_prompt), *file);
}

nlohmann::ordered_json json_of_line(const std::string& line, const std::string& where, const std::string& example) {
  try {
    return base::parse_json<nlohmann::ordered_json>(line, where);
  } catch (const base::InputError& e) {
    if (nlohmann::json::accept(line)) throw;  // it has another fault
    const auto begins = line.find_first_not_of(" \t\r");
    const bool is_text =
        begins != std::string::npos && std::string_view("{[\"").find(line[begins]) == std::string::npos;
    throw base::InputError(
        is_text ? fmt::format("{} is no JSON: {}", where, base::excerpt(line)) : std::string(e.what()),
        "each line is JSON, such as " + example);
  }
}

std::optional<Line> read_line(std::FILE* file, const std::string& name) {
  Line line;
  bool any = false;
  for (int c; (c = std::getc(file)) != EOF;) {
    any = true;
    if (c == '\n') return line;
    if (line.text.size() == largest_prompt) line.too_long = true, line.text.clear();
    if (!line.too_long) line.text += static_cast<char>(c);
  }
  if (std::ferror(file) != 0) throw unreadable(name);
  return any ? std::optional(std::move(line)) : std::nullopt;
}

PromptTokens prompt_tokens(const data::Tokenizer& tokenizer, std::string_view prompt, std::int64_t context,
                           const Beginning& beginning) {
  std::vector<std::int32_t> text;
  tokenizer.encode(prompt, text);
  if (tokenizer.unknown() >= 0 && std::find(text.begin(), text.end(), tokenizer.unknown()) != text.end())
    throw base::InputError(
        fmt::format("tokenizer {} has no token for {}", tokenizer.name(), lacking(tokenizer, prompt)),
        "leave it out, or write it with characters of the training text");
  PromptTokens out;
  const auto& before = beginning.tokens;
  const bool there = text.size() >= before.size() && std::equal(before.begin(), before.end(), text.begin());
  if (text.empty()) out.tokens = beginning.alone;
  else if (!there) out.tokens = before;
  out.put = out.tokens.size();
  out.tokens.insert(out.tokens.end(), text.begin(), text.end());
  if (out.tokens.empty())
    throw base::InputError("the prompt has no tokens, and nothing is put before it",
                           "give a text to continue, or leave --no-bos out");
  if (static_cast<std::int64_t>(out.tokens.size()) > context)
    throw base::InputError(fmt::format("the prompt has {} tokens, the model's context has room for {}{}", text.size(),
                                       context - static_cast<std::int64_t>(out.put), behind(out.put)),
                           "give the end of the prompt alone: the model sees no more");
  return out;
}

PromptTokens tokens_of_ids(const data::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                           std::int64_t context) {
  if (ids.empty()) throw base::InputError("the prompt has no tokens", "give at least one token id");
  for (const auto id : ids)
    if (id < 0 || id >= tokenizer.vocabulary())
      throw base::InputError(fmt::format("the prompt has token {}, and tokenizer {} has {}", id, tokenizer.name(),
                                         base::counted(tokenizer.vocabulary(), "token")),
                             "give ids below that number");
  if (std::ssize(ids) > context)
    throw base::InputError(
        fmt::format("the prompt has {} tokens, the model's context has room for {}", ids.size(), context),
        "give the end of the prompt alone: the model sees no more");
  return {ids, 0};
}

}  // namespace trainyard::generate
