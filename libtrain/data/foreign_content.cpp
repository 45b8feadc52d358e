// Recognizes content by signatures and by counting zero bytes.
#include "libtrain/data/foreign_content.h"

#include "libtrain/base/index.h"
#include "libtrain/data/document_splitter.h"
#include "libtrain/data/json_line.h"

#include <algorithm>
#include <array>

namespace trainyard::data {

namespace {

using namespace std::string_view_literals;

struct Signature {
  std::size_t at;
  std::string_view bytes, what, way;
};

constexpr auto to_utf8_16 = "iconv -f UTF-16 -t UTF-8 FILE >utf8.txt"sv,
               to_utf8_32 = "iconv -f UTF-32 -t UTF-8 FILE >utf8.txt"sv;
constexpr auto unpack = "unpack it, and give the files that were in it"sv;
constexpr auto export_lines = "write its column of text as JSON lines, {\"text\": ...} on each"sv;
constexpr auto as_text = "export it as plain text"sv;

// Where one signature is the beginning of another, the longer one comes first.
constexpr std::array signatures{
    Signature{0, "\xFF\xFE\0\0"sv, "UTF-32 text", to_utf8_32},
    Signature{0, "\0\0\xFE\xFF"sv, "UTF-32 text", to_utf8_32},
    Signature{0, "\xFF\xFE"sv, "UTF-16 text", to_utf8_16},
    Signature{0, "\xFE\xFF"sv, "UTF-16 text", to_utf8_16},
    Signature{257, "ustar\0"sv, "a tar archive", unpack},
    Signature{257, "ustar  \0"sv, "a tar archive", unpack},
    Signature{0, "!<arch>\n"sv, "an ar archive", unpack},
    Signature{0, "PK\3\4"sv, "a zip archive (or a document that is one)", unpack},
    Signature{0, "PK\5\6"sv, "an empty zip archive", unpack},
    Signature{0, "7z\xBC\xAF\x27\x1C"sv, "a 7z archive", unpack},
    Signature{0, "Rar!\x1A\x07"sv, "a RAR archive", unpack},
    Signature{0,
              "\xFD"
              "7zXZ\0"sv,
              "packed with xz", "xz -dc FILE | shard-data --input -"},
    Signature{4, "1AY&SY"sv, "packed with bzip2", "bzip2 -dc FILE | shard-data --input -"},
    Signature{0, "\x04\x22\x4D\x18"sv, "packed with lz4", "lz4 -dc FILE | shard-data --input -"},
    Signature{0, "\x28\xB5\x2F\xFD"sv, "packed twice", "unpack it once"},
    Signature{0, "\x1F\x9D"sv, "packed with compress", "zcat FILE | shard-data --input -"},
    Signature{0, "LZIP\1"sv, "packed with lzip", "lzip -dc FILE | shard-data --input -"},
    Signature{0, "\x1F\x8B\x08"sv, "packed twice", "unpack it once"},
    Signature{0, "version https://git-lfs.github.com/spec/"sv, "a pointer of Git LFS",
              "git lfs pull, in its folder, gets the file"sv},
    Signature{0, "PAR1\x15"sv, "a Parquet file", export_lines},
    Signature{0, "ARROW1\0\0"sv, "an Arrow file", export_lines},
    Signature{0, "\x89HDF\r\n\x1A\n"sv, "an HDF5 file", "if it holds tokens, train reads it: --data names its folder"},
    Signature{0, "SQLite format 3\0"sv, "an SQLite database", export_lines},
    Signature{0, "%PDF-"sv, "a PDF document", as_text},
    Signature{0, "{\\rtf"sv, "an RTF document", as_text},
    Signature{0, "\x89PNG\r\n"sv, "a PNG image", as_text},
    Signature{0, "GIF87a"sv, "a GIF image", as_text},
    Signature{0, "GIF89a"sv, "a GIF image", as_text},
    Signature{0, "\xFF\xD8\xFF"sv, "a JPEG image", as_text},
    Signature{0,
              "\x7F"
              "ELF"sv,
              "a program", as_text},
    Signature{0, "\x93NUMPY"sv, "a NumPy array", export_lines},
};

// Text has hardly any zero bytes. In UTF-16 without a mark half of the bytes are zero, and at the beginning of an
// archive many are.
constexpr std::size_t first_block = 512;
bool has_many_zeros(std::string_view bytes) {
  constexpr std::size_t one_of = 64;
  const auto zeros = base::size(std::count(bytes.begin(), bytes.end(), '\0'));
  return zeros > 1 && zeros * one_of > bytes.size();
}

bool is_white(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// The beginning of an object, `{ "key" :`, and the text after it.
struct Beginning {
  std::string_view key, rest;
};
std::optional<Beginning> beginning_of_object(std::string_view text) {
  const auto skip_to = [&](char c) {
    const auto at = std::find_if_not(text.begin(), text.end(), is_white);
    if (at == text.end() || *at != c) return false;
    text.remove_prefix(base::size(at - text.begin()) + 1);
    return true;
  };
  if (!skip_to('{') || !skip_to('"')) return std::nullopt;
  const auto end = text.find('"');
  if (end == text.npos) return std::nullopt;
  const auto key = text.substr(0, end);
  text.remove_prefix(end + 1);
  if (!skip_to(':')) return std::nullopt;
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return Beginning{key, text};
}

}  // namespace

std::optional<ForeignContent> foreign_content(std::string_view head, bool json_lines) {
  head = head.substr(0, foreign_head);
  for (const auto& s : signatures)
    if (head.size() >= s.at + s.bytes.size() && head.substr(s.at, s.bytes.size()) == s.bytes)
      return ForeignContent{std::string(s.what), std::string(s.way)};
  if (has_many_zeros(head) || has_many_zeros(head.substr(0, first_block)))
    return ForeignContent{"no text: it has bytes of 0 in many places",
                          "if it is UTF-16, " + std::string(to_utf8_16) + "; shard-data reads UTF-8"};
  if (!json_lines) return std::nullopt;
  if (head.starts_with(byte_order_mark)) head.remove_prefix(byte_order_mark.size());
  const auto first = std::find_if_not(head.begin(), head.end(), is_white);
  if (first == head.end()) return std::nullopt;
  if (*first == '[')
    return ForeignContent{"a JSON list, and no JSON lines", "jq -c '.[]' FILE >lines.jsonl makes them"};
  const auto behind = std::find_if_not(first + 1, head.end(), [](char c) { return is_white(c) && c != '\n'; });
  if (*first == '{' && behind != head.end() && *behind == '\n')
    return ForeignContent{"JSON over several lines, and no object a line", "jq -c . FILE >lines.jsonl makes them"};
  return std::nullopt;
}

std::optional<JsonLines> json_lines_in(std::string_view head, bool whole, std::string_view key) {
  if (head.starts_with(byte_order_mark)) head.remove_prefix(byte_order_mark.size());
  JsonLines found;
  std::size_t lines = 0;
  bool has_key = false;
  while (!head.empty()) {
    const auto end = head.find('\n');
    if (end == head.npos && !whole) break;
    const auto line = head.substr(0, end);
    head.remove_prefix(end == head.npos ? head.size() : end + 1);
    if (is_blank(line)) continue;
    const auto members = members_of(line);
    if (!members) return std::nullopt;
    ++lines;
    for (const auto& member : *members) {
      const auto name = member.key.substr(1, member.key.size() - 2);
      if (!member.value.starts_with('"')) continue;
      has_key |= name == key;
      if (lines == 1) found.text_keys.emplace_back(name);
    }
  }
  if (lines > 1 || (lines == 1 && has_key)) return found;
  if (whole) return std::nullopt;
  const auto object = beginning_of_object(head);
  if (!object) return std::nullopt;
  if (object->rest.starts_with('"')) found.text_keys.emplace_back(object->key);
  return found;
}

}  // namespace trainyard::data
