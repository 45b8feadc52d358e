// Splits inputs into documents with a bounded buffer.
#include "libtrain/data/document_source.h"

#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/io/input_stream.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace trainyard::data {

namespace {

bool names_json(std::string_view name) {
  for (const std::string_view packed : {".gz", ".zst", ".zstd"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
}

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

// The longest prefix of at most `limit` bytes that ends between characters.
std::size_t character_boundary(std::string_view text, std::size_t limit) {
  std::size_t n = std::min(limit, text.size());
  if (n == text.size()) return n;
  for (int back = 0; back < 4 && n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80; ++back) --n;
  return n == 0 ? limit : n;
}

}  // namespace

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::string source_name(std::string_view path) {
  const bool utf8 = is_utf8(path);
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto c = static_cast<unsigned char>(path[i]);
    const bool second_of_control = utf8 && i > 0 && static_cast<unsigned char>(path[i - 1]) == 0xC2 &&
                                   c < 0xA0;  // U+0080 to U+009F, which terminals obey
    const bool first_of_control =
        utf8 && c == 0xC2 && i + 1 < path.size() && static_cast<unsigned char>(path[i + 1]) < 0xA0;
    if (c == '\\') out += "\\\\";
    else if (c == '\t') out += "\\t";
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c < 0x20 || c == 0x7F || (!utf8 && c >= 0x80) || first_of_control || second_of_control)
      out += fmt::format("\\x{:02x}", c);
    else out += path[i];
  }
  return out;
}

// Collects lines into documents and hands them on.
struct DocumentSource::Sink {
  const SourceOptions& options;
  const std::string& json_key;
  const TextSplit split;
  const std::function<bool(std::string&&)>& take;
  const std::function<void(const Refusal&)>& refuse;
  std::string name;
  std::int64_t line = 0, first_line = 1;
  bool go_on = true, silent = true;  // silent: nothing was taken or refused yet
  std::int64_t refused = 0;
  std::string document = {};
  simdjson::dom::parser parser{};

  void reject(std::int64_t at, const std::string& reason) {
    silent = false;
    ++refused;
    refuse({name, at, reason});
  }

  void hand_on(std::string&& text, std::int64_t at) {
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return reject(at, "empty document");
    if (!is_utf8(text)) return reject(at, "invalid UTF-8");
    silent = false;
    go_on = take(std::move(text));
  }

  void json_line(const std::string& text, bool whole) {
    if (!whole) return reject(line, fmt::format("line longer than {} bytes", options.largest_document));
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return reject(line, "empty document");
    if (!is_utf8(text)) return reject(line, "invalid UTF-8");
    simdjson::dom::element root;
    const auto mark = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    if (parser.parse(text.data() + mark, text.size() - mark).get(root)) return reject(line, "not JSON");
    simdjson::dom::element value;
    if (root[json_key].get(value)) return reject(line, fmt::format("no key '{}'", json_key));
    std::string_view content;
    if (value.get(content)) return reject(line, fmt::format("key '{}' is not text", json_key));
    hand_on(std::string(content), line);
  }

  void finish_document() {
    if (!document.empty()) hand_on(std::exchange(document, {}), first_line);
    first_line = line + 1;
  }

  // `text` is one line with its end; `whole` is false for a part of an overlong one.
  void plain_line(const std::string& text, bool whole) {
    const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
    if (split == TextSplit::paragraphs && blank && whole) return finish_document();
    if (split == TextSplit::lines && blank && whole && document.empty()) {
      first_line = line + 1;
      return;
    }
    document += text;
    const auto most = static_cast<std::size_t>(options.largest_document);
    std::size_t cut = 0;
    while (document.size() - cut > most && go_on) {
      const auto n = character_boundary(std::string_view(document).substr(cut), most);
      hand_on(document.substr(cut, n), first_line);
      cut += n;
      first_line = line;
    }
    document.erase(0, cut);
    if (split == TextSplit::lines && whole) finish_document();
  }
};

DocumentSource::DocumentSource(const std::vector<std::string>& inputs, SourceOptions options)
    : options_(std::move(options)) {
  for (const auto& input : inputs) {
    if (input.size() < 2 || input[0] != '@') {
      inputs_.push_back(input);
      continue;
    }
    std::string paths;
    io::InputStream list(input.substr(1), options_.poll);
    std::vector<char> buffer(1 << 16);
    while (const auto n = list.read(buffer.data(), buffer.size())) {
      paths.append(buffer.data(), n);
      if (static_cast<std::int64_t>(paths.size()) > base::largest_description)
        throw base::InputError(fmt::format("{}: a list of more than {} MiB", input, base::largest_description >> 20),
                               "a list has one path a line; text itself is given without @");
    }
    if (paths.starts_with(byte_order_mark)) paths.erase(0, byte_order_mark.size());
    std::istringstream lines(paths);
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) inputs_.push_back(line);
    }
  }
  if (inputs_.empty()) throw base::InputError("there is no input", "give --input FILE, --input - or --input @LIST");
  for (const auto& name : inputs_) {
    const auto size = io::InputStream::check(name);
    pieces_.push_back({sizes_.size(), 0, size});
    sizes_.push_back(size);
    ++(names_json(name) ? kinds_.json : size < 0 ? kinds_.unknown : kinds_.plain);
    total_bytes_ = size < 0 || total_bytes_ < 0 ? -1 : total_bytes_ + size;
  }
  require_use();
}

void DocumentSource::require_use() const {
  if (kinds_.unknown > 0) return;
  const auto inputs =
      inputs_.size() == 1 ? inputs_[0] == "-" ? std::string("standard input") : source_name(inputs_[0]) : "every input";
  if (options_.json_key && kinds_.json == 0)
    throw base::UsageError(
        fmt::format("--json-key is for JSON lines, and {} is plain text, which --split cuts into documents", inputs),
        "leave it out; JSON lines are files that end in .jsonl, .ndjson or .json, or a pipe whose first byte is {");
  if (options_.split && kinds_.plain == 0)
    throw base::UsageError(
        fmt::format("--split is for plain text, and {} is JSON lines, where every line is a document of its own",
                    inputs),
        "leave it out; --json-key names the key of the text");
}

void DocumentSource::take(Share share) {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (sizes_[i] < 0)
      throw base::UsageError(fmt::format("--task reads what every task can open for itself, and {} is a pipe",
                                         inputs_[i] == "-" ? "standard input" : source_name(inputs_[i])),
                             "put the text into files; a list of them, @LIST, may be a pipe");
  const auto cuts = [&](const std::string& input) {
    if (names_json(input)) return Cuts::lines;
    const auto split = options_.split.value_or(TextSplit::whole);
    return split == TextSplit::lines ? Cuts::lines : split == TextSplit::paragraphs ? Cuts::paragraphs : Cuts::nowhere;
  };
  pieces_ = pieces_of(inputs_, sizes_, share, cuts, options_.poll);
  total_bytes_ = 0;
  for (const auto& piece : pieces_) total_bytes_ += piece.end - piece.begin;
}

void DocumentSource::read(const std::function<bool(std::string&&)>& take,
                          const std::function<void(const Refusal&)>& refuse) {
  const std::string json_key = options_.json_key.value_or("text");
  for (auto& piece : pieces_) {
    const auto& name = inputs_[piece.input];
    current_ = name == "-" ? "standard input" : source_name(name);
    Sink sink{options_, json_key, options_.split.value_or(TextSplit::whole), take, refuse, current_};
    const bool go_on = read_piece(piece, sink);
    piece.lines = sink.line, piece.refused = sink.refused, piece.silent = sink.silent;
    if (!go_on) return;
    if (options_.poll) options_.poll();
  }
}

bool DocumentSource::read_piece(Piece& piece, Sink& sink) {
  const auto& name = inputs_[piece.input];
  auto input = piece.whole() ? io::InputStream(name, options_.poll)
                             : io::InputStream(name, options_.poll, piece.begin, piece.end);
  std::string line;
  std::vector<char> buffer(1 << 20);
  auto held = input.read(buffer.data(), buffer.size());
  const auto head = [&] { return std::string_view(buffer.data(), std::min(held, byte_order_mark.size())); };
  while (held > 0 && held < byte_order_mark.size() && byte_order_mark.starts_with(head())) {
    const auto more = input.read(buffer.data() + held, buffer.size() - held);
    if (more == 0) break;
    held += more;
  }
  std::size_t at = piece.first && head() == byte_order_mark ? byte_order_mark.size() : 0;
  const bool json_lines = names_json(name) || (input.is_pipe() && at < held && buffer[at] == '{');
  if (input.is_pipe() && !names_json(name) && kinds_.unknown > 0) {
    --kinds_.unknown;
    ++(json_lines ? kinds_.json : kinds_.plain);
    require_use();
  }
  bool inside = false;  // the line goes on from a part handed on before
  const auto emit = [&](bool whole) {
    if (!inside) ++sink.line;
    if (json_lines && !inside)
      sink.json_line(line,
                     whole && static_cast<std::int64_t>(line.size()) <= options_.largest_document + 1);  // 1: its end
    if (!json_lines) sink.plain_line(line, whole);
    inside = !whole;
    line.clear();
  };
  const auto before = bytes_read_;
  for (; held > 0 && sink.go_on; held = sink.go_on ? input.read(buffer.data(), buffer.size()) : 0, at = 0) {
    bytes_read_ = before + input.bytes_taken();
    while (at < held && sink.go_on) {
      const auto* end = static_cast<const char*>(std::memchr(buffer.data() + at, '\n', held - at));
      const auto stop = end == nullptr ? held : static_cast<std::size_t>(end - buffer.data()) + 1;
      line.append(buffer.data() + at, stop - at);
      at = stop;
      if (end != nullptr) emit(true);
      else if (static_cast<std::int64_t>(line.size()) > options_.largest_document) emit(false);
    }
  }
  if (sink.go_on && (!line.empty() || inside)) emit(true);
  if (sink.go_on && !json_lines) sink.finish_document();
  if (sink.silent && piece.whole()) sink.reject(1, "empty document");  // an empty file is seen, too
  return sink.go_on;
}

}  // namespace trainyard::data
