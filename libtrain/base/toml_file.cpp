// Checks the depth of TOML, then parses it.
#include "libtrain/base/toml_file.h"

#include "libtrain/base/advice.h"
#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"

#include <cstddef>
#include <cstdint>

namespace trainyard::base {

namespace {

constexpr std::int64_t largest_toml = std::int64_t{1} << 20, longest_text = 8192;

// The end of the string that begins at `at`, single-line or multi-line ("""); the end of the text when the string is
// not closed.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool escapes = quote == '"';
  const auto three = std::string(3, quote);
  const bool several = text.substr(at, 3) == three;
  for (auto i = at + (several ? 3 : 1); i < text.size(); ++i) {
    if (escapes && text[i] == '\\') ++i;
    else if (several && text.substr(i, 3) == three) {
      // One or two more quotes belong to the string: the last three close it.
      std::size_t content = 0;
      while (content < 2 && i + 3 + content < text.size() && text[i + 3 + content] == quote) ++content;
      return i + 2 + content;
    } else if (!several && (text[i] == quote || text[i] == '\n')) return i;
  }
  return text.size();
}

[[noreturn]] void refuse_json(const std::string& text, const std::string& path) {
  advice().on_json(text, path);
  throw InputError(fmt::format("{} begins with '{{' like JSON, and TOML is read", path),
                   "one `key = value` a line, text in quotes");
}

}  // namespace

void require_shallow_toml(std::string_view text, const std::string& where) {
  int line = 1, open = 0, parts = 1;
  const auto check = [&](int depth, const char* what) {
    if (depth > deepest_toml)
      throw InputError(fmt::format("{} line {}: {} {} deep", where, line, what, depth),
                       "write one `key = value` per line");
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') i = std::min(text.find('\n', i), text.size());
    if (c == '"' || c == '\'') {
      const auto end = end_of_string(text, i);
      for (; i < end && i < text.size(); ++i) line += text[i] == '\n';
    }
    if (i >= text.size()) return;
    if (c == '[' || c == '{') check(++open, "brackets");
    if ((c == ']' || c == '}') && open > 0) --open;
    if (c == '.') check(++parts, "a dotted key");
    else if (c == '=' || c == ',' || c == '[' || c == '{' || text[i] == '\n') parts = 1;
    line += text[i] == '\n';
  }
}

toml::table read_toml_file(const std::string& path) { return toml_of_text(read_file(path, largest_toml), path); }

toml::table toml_of_text(const std::string& text, const std::string& path) {
  if (const auto first = text.find_first_not_of(" \t\r\n"); first != std::string::npos && text[first] == '{')
    refuse_json(text, path);
  require_shallow_toml(text, path);
  try {
    auto table = toml::parse(text, path);
    for (const auto& [key, node] : table)
      if (const auto* value = node.as_string();
          (value && static_cast<std::int64_t>(value->get().size()) > longest_text) ||
          static_cast<std::int64_t>(key.str().size()) > longest_text)
        throw InputError(
            fmt::format("{} line {}: a text of more than {} bytes", path, node.source().begin.line, longest_text),
            "is the quotation mark at its end missing?");
    return table;
  } catch (const toml::parse_error& e) {
    throw InputError(fmt::format("{} line {}: {}", path, e.source().begin.line, e.description()),
                     "one `key = value` a line, text in quotes");
  }
}

}  // namespace trainyard::base
