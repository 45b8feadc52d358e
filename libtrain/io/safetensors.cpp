// Reads headers of files that cannot be trusted, and writes headers.
#include "libtrain/io/safetensors.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace trainyard::io {

namespace {

// The format allows 100 MB. 32 MB are some 300 000 tensors in one file, and a parser needs many times the bytes of a
// hostile text.
constexpr std::int64_t largest_header = 32'000'000;
constexpr int deepest = 3;             // the header, a tensor, its shape
constexpr std::size_t most_dims = 64;  // the limit of PyTorch
constexpr const char* metadata_key = "__metadata__";
constexpr const char* way_out = "the file is damaged or no safetensors file: get it again";

template <class... A>
[[noreturn]] void refuse(const std::string& where, fmt::format_string<A...> format, A&&... values) {
  throw base::InputError(where + ": " + fmt::format(format, std::forward<A>(values)...), way_out);
}

std::map<std::string, std::string> metadata_of(const nlohmann::json& json, const std::string& where) {
  base::SortedJsonObject object(json, where, way_out);
  std::map<std::string, std::string> all;
  for (const auto& [key, value] : json.items()) all[key] = object.text(key, largest_header);
  return all;
}

// A whole number from 0 on; -1 for any other value.
std::int64_t count_of(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) return -1;
  const auto n = value.get<std::uint64_t>();
  return n <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ? static_cast<std::int64_t>(n) : -1;
}

// Parses a tensor's entry. Here the offset still counts from the start of the data.
SafeTensor tensor_of(const std::string& name, const nlohmann::json& json, const std::string& where) {
  base::SortedJsonObject object(json, where, way_out);
  SafeTensor t;
  t.name = name;
  t.dtype = object.text("dtype");
  const auto size = safetensors_element_bytes(t.dtype);
  if (size == 0) refuse(where, "its type {} is none that is known", base::excerpt(t.dtype));
  std::int64_t bytes = size;
  const auto& shape = object.array("shape");
  if (shape.size() > most_dims) refuse(where, "its shape has {} extents, {} are the most", shape.size(), most_dims);
  for (const auto& extent : shape) {
    const auto n = count_of(extent);
    if (n < 0) refuse(where, "{} is no extent of a shape", base::excerpt(extent.dump()));
    if (__builtin_mul_overflow(bytes, n, &bytes)) refuse(where, "its shape makes more bytes than can be counted");
    t.shape.push_back(n);
  }
  const auto& range = object.array("data_offsets");
  if (range.size() != 2) refuse(where, "data_offsets must be two numbers, found {}", range.size());
  t.offset = count_of(range[0]);
  const auto end = count_of(range[1]);
  if (t.offset < 0 || end < t.offset) refuse(where, "data_offsets are no range: {}", base::excerpt(range.dump()));
  t.bytes = end - t.offset;
  if (t.bytes != bytes)
    refuse(where, "{} [{}] makes {} bytes, and its range has {}", t.dtype, fmt::join(t.shape, ", "), bytes, t.bytes);
  object.done();
  return t;
}

// Refuses deep nesting before a parser builds anything from the text.
void require_flat(const std::string& text, const std::string& where) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = text[i];
    if (c == '"') quoted = !quoted;
    else if (c == '\\' && quoted) ++i;
    else if (!quoted && (c == '{' || c == '[') && ++depth > deepest)
      refuse(where, "lists and objects are nested more than {} deep", deepest);
    else if (!quoted && (c == '}' || c == ']')) --depth;
  }
}

// A name as a sentence shows it.
std::string shown(const std::string& name) { return base::excerpt(name); }

}  // namespace

std::int64_t safetensors_element_bytes(std::string_view dtype) {
  struct Type {
    std::string_view name;
    std::int64_t bytes;
  };
  static constexpr Type types[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
                                   {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
                                   {"F32", 4},  {"I64", 8}, {"U64", 8}, {"F64", 8},     {"C64", 8}};
  for (const auto& type : types)
    if (type.name == dtype) return type.bytes;
  return 0;
}

SafetensorsHeader parse_safetensors_header(const std::string& text, std::int64_t data_bytes, const std::string& where) {
  const auto header_where = where + ": header";
  if (!text.starts_with('{')) refuse(header_where, "it does not begin with '{{'");
  require_flat(text, header_where);
  const auto json = base::parse_json<nlohmann::json>(text, header_where);
  SafetensorsHeader header;
  for (const auto& [key, value] : json.items()) {
    const auto place = fmt::format("{}: {}", where, shown(key));
    if (key == metadata_key) header.metadata = metadata_of(value, place);
    else header.tensors.push_back(tensor_of(key, value, place));
  }
  auto& tensors = header.tensors;
  std::stable_sort(tensors.begin(), tensors.end(), [](const SafeTensor& a, const SafeTensor& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;  // empty tensors come first
  });
  const auto begin = static_cast<std::int64_t>(8 + text.size());
  std::int64_t end = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto& t = tensors[i];
    const auto before = i == 0 ? std::string("the start") : shown(tensors[i - 1].name);
    if (t.offset > end)
      refuse(where, "{} bytes between {} and {} belong to nothing", t.offset - end, before, shown(t.name));
    if (t.offset < end) refuse(where, "{} and {} overlap", before, shown(t.name));
    if (t.bytes > data_bytes - t.offset)
      refuse(where, "{} ends at byte {} of the data, which end at {}", shown(t.name), t.offset + t.bytes, data_bytes);
    end = t.offset + t.bytes;
    t.offset += begin;
  }
  if (end != data_bytes)
    refuse(where, "{} at its end {} to nothing", base::counted(data_bytes - end, "byte"),
           data_bytes - end == 1 ? "belongs" : "belong");
  return header;
}

std::string make_safetensors_header(SafetensorsHeader& header) {
  auto json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[metadata_key] = header.metadata;
  std::int64_t at = 0;
  std::vector<std::pair<std::string, nlohmann::ordered_json>> entries;
  for (auto& t : header.tensors) {
    t.offset = at;
    t.bytes = safetensors_element_bytes(t.dtype);
    for (const auto n : t.shape) t.bytes *= n;
    at += t.bytes;
    // An ordered object searches from its front for each key, so the text is put together by hand.
    entries.emplace_back(t.name,
                         nlohmann::ordered_json{
                             {"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {t.offset, t.offset + t.bytes}}});
  }
  auto text = json.dump();
  text.pop_back();
  for (const auto& [name, entry] : entries)
    text += fmt::format("{}{}:{}", text.size() > 1 ? "," : "", nlohmann::json(name).dump(), entry.dump());
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  for (auto& t : header.tensors) t.offset += static_cast<std::int64_t>(8 + text.size());
  const auto length = static_cast<std::uint64_t>(text.size());
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + text;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file(path, BulkFile::Mode::read) {
  const auto size = file.size();
  if (size < 8) refuse(path, "has {} bytes, fewer than the length of its header", size);
  std::uint64_t length = 0;
  file.read(0, &length, 8);
  if (length > static_cast<std::uint64_t>(std::min(largest_header, size - 8))) {
    std::string beginning(std::min(static_cast<std::size_t>(size), base::pointer_beginning.size()), '\0');
    file.read(0, beginning.data(), std::ssize(beginning));
    base::require_no_pointer(beginning, path);
    refuse(path, "it is no safetensors file, or damaged: it says that its header has {} bytes, and {}", length,
           length > static_cast<std::uint64_t>(largest_header) ? "a header has at most 32 MB"
                                                               : fmt::format("{} are left in the file", size - 8));
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(8, text.data(), static_cast<std::int64_t>(length));
  header = parse_safetensors_header(text, size - 8 - static_cast<std::int64_t>(length), path);
}

}  // namespace trainyard::io
