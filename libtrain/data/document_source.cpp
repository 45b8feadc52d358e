// Reads inputs and cuts them into stretches, with a bounded buffer.
#include "libtrain/data/document_source.h"

#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/data/foreign_content.h"
#include "libtrain/data/line_pairs.h"
#include "libtrain/io/input_stream.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace trainyard::data {

namespace {

bool names_json(std::string_view name) {
  for (const std::string_view packed : {".gz", ".zst", ".zstd"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
}

bool names_table(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view packed : {".gz", ".zst", ".zstd"})
    if (name.ends_with(packed)) name.resize(name.size() - packed.size());
  return name.ends_with(".csv") || name.ends_with(".tsv");
}

// Several inputs of one kind: the first input, and how many more there are.
class Several {
 public:
  void add(const std::string& path) {
    if (count_++ == 0) first_ = source_name(path);
  }
  bool any() const { return count_ > 0; }
  std::string text() const { return count_ == 1 ? first_ : fmt::format("{} and {} more", first_, count_ - 1); }

 private:
  std::string first_;
  std::size_t count_ = 0;
};

struct Head {
  std::string bytes;
  bool whole = false;  // the input has no more bytes
};

// The first bytes of a file, unpacked.
Head head_of(const std::string& path, const std::function<void()>& poll) {
  Head head{std::string(foreign_head, '\0')};
  io::InputStream input(path, poll);
  std::size_t held = 0;
  while (held < head.bytes.size() && !head.whole) {
    const auto n = input.read(head.bytes.data() + held, head.bytes.size() - held);
    head.whole = n == 0;
    held += n;
  }
  head.bytes.resize(held);
  return head;
}

// The flag that reads JSON lines under another name: with the given key if the lines have it, else with a key that they
// have.
std::string json_key_flag(const JsonLines& lines, const std::string& key) {
  const auto& keys = lines.text_keys;
  const bool has = keys.empty() || std::find(keys.begin(), keys.end(), key) != keys.end();
  return base::text("$json-key ") + source_name(has ? key : keys.front());
}

// What replaces " FILE" in a suggested command; empty for a pipe.
std::string given_to_command(const std::string& path) {
  if (path.empty()) return {};
  const auto source = source_name(path);
  if (!io::InputStream::is_packed(path)) return " " + source;
  return fmt::format(" <({} {})", path.ends_with(".zst") || path.ends_with(".zstd") ? "zstd -dc" : "zcat", source);
}

// Added to the hint when the refused file is in a folder.
std::string by_names() { return base::text("; $include chooses the files of a folder by their names"); }

// Refuses content that is no text. `path` is empty for a pipe. `found`: the file was found in a folder.
void require_text(const std::string& source, const std::string& path, std::string_view head, bool json_lines,
                  bool found) {
  const auto foreign = foreign_content(head, json_lines);
  if (!foreign) return;
  auto way = foreign->way + (found ? by_names() : "");
  constexpr std::string_view file = " FILE";
  if (const auto at = way.find(file); at != std::string::npos) way.replace(at, file.size(), given_to_command(path));
  throw base::InputError(fmt::format("{} is {}", source, foreign->what), way);
}

// Whether the beginning of a pipe, whose name does not tell, looks like JSON. A JSON list does too, unless the user
// says that it is text.
bool begins_like_json(std::string_view head, bool said_to_be_text) {
  if (head.starts_with('{')) return true;
  const auto skip = [&](char c) {
    if (!head.starts_with(c)) return false;
    head.remove_prefix(1);
    head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
    return true;
  };
  return !said_to_be_text && skip('[') && skip('{') && head.starts_with('"');
}

}  // namespace

struct DocumentSource::Reading {
  Reading(const std::string& name, const Piece& piece, const std::function<void()>& poll, const SplitRules& rules,
          std::size_t least)
      : input(piece.whole() ? io::InputStream(name, poll) : io::InputStream(name, poll, piece.begin, piece.end)),
        cutter(rules, least), source(name == "-" ? "standard input" : source_name(name)) {}

  io::InputStream input;
  StretchCutter cutter;
  std::string source;
  std::size_t piece = 0;
  std::int64_t before = 0;  // bytes read of all earlier pieces
  bool at_end = false;
};

DocumentSource::DocumentSource(const std::vector<std::string>& inputs, SourceOptions options)
    : options_(std::move(options)) {
  if (pairs_in_files()) {
    add_pair_files(inputs);
    return;
  }
  auto files = input_files(inputs, options_.folders, options_.poll);
  inputs_ = std::move(files.paths);
  found_ = std::move(files.found);
  for (const auto& name : inputs_) {
    const auto size = io::InputStream::check(name);
    pieces_.push_back({sizes_.size(), 0, size});
    sizes_.push_back(size);
    json_.push_back(names_json(name));
    if (!json_.back() && size >= 0 && (options_.json_key || options_.pairs)) {
      const auto head = head_of(name, options_.poll);
      const auto& key = options_.pairs ? options_.pairs->source_key : *options_.json_key;
      json_.back() = json_lines_in(head.bytes, head.whole, key).has_value();
    }
    ++(json_.back() ? kinds_.json : size < 0 ? kinds_.unknown : kinds_.plain);
    total_bytes_ = size < 0 || total_bytes_ < 0 ? -1 : total_bytes_ + size;
  }
  require_use();
  warn_of_tables();
}

DocumentSource::~DocumentSource() = default;

void DocumentSource::warn_of_tables() const {
  Several tables;
  for (const auto& name : inputs_)
    if (names_table(name)) tables.add(name);
  if (tables.any())
    base::log_warning("{}: separators and names of columns become text (JSON lines hold the text alone: $json-key)",
                      tables.text());
}

// Checks every input before hours are spent on the first ones. Pipes are checked when they are read.
void DocumentSource::require_text_everywhere() {
  const auto key = options_.json_key.value_or("text");
  Several with_braces;
  std::string flag;
  for (const auto& piece : pieces_) {
    if (!piece.first || sizes_[piece.input] < 0) continue;
    const auto& name = inputs_[piece.input];
    const auto head = head_of(name, options_.poll);
    const bool json = json_[piece.input], found = found_[piece.input];
    const bool list = head.bytes.starts_with('[') && begins_like_json(head.bytes, options_.split.has_value());
    require_text(source_name(name), name, head.bytes, json || list, found);
    if (json) continue;
    const auto lines = json_lines_in(head.bytes, head.whole, key);
    if (!lines) continue;
    if (!options_.split)
      throw base::InputError(
          fmt::format("{} has a JSON object on every line, and its name is that of plain text", source_name(name)),
          base::text("{} reads the texts alone, as a name that ends in .jsonl does; $split whole reads the lines as "
                     "they are{}",
                     json_key_flag(*lines, key), found ? by_names() : ""));
    if (!with_braces.any()) flag = json_key_flag(*lines, key);
    with_braces.add(name);
  }
  if (with_braces.any())
    base::log_warning("{}: every line is a JSON object, whose braces and keys become text ({} reads the texts alone)",
                      with_braces.text(), flag);
}

void DocumentSource::require_use() const {
  if (kinds_.unknown > 0) return;
  const char* of_json_lines = options_.chat              ? "chat-template"
                              : options_.pairs           ? "pairs-keys"
                              : !options_.fields.empty() ? "keep-field"
                                                         : nullptr;
  if (kinds_.plain > 0 && of_json_lines)
    throw base::UsageError(base::text("{} is for JSON lines, and {} plain text", base::setting_name(of_json_lines),
                                      kinds_.json == 0 ? "the input is" : "one input is"),
                           "give JSON lines, in files that end in .jsonl");
  const auto inputs =
      inputs_.size() == 1 ? inputs_[0] == "-" ? std::string("standard input") : source_name(inputs_[0]) : "every input";
  if (options_.json_key && kinds_.json == 0)
    throw base::UsageError(
        base::text("$json-key is for JSON lines, and {} is plain text, which $split cuts into documents", inputs),
        "leave it out; JSON lines are files that end in .jsonl, .ndjson or .json or have an object on every line, or a "
        "pipe whose first byte is {");
  if (options_.split && kinds_.plain == 0)
    throw base::UsageError(
        base::text("$split is for plain text, and {} is JSON lines, where every line is a document of its own", inputs),
        base::text("leave it out; $json-key names the key of the text"));
}

std::string DocumentSource::first_pipe() const {
  if (pairs_in_files())
    for (const auto& path : every_file())
      if (io::InputStream::check(path) < 0) return source_name(path);
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (sizes_[i] < 0) return inputs_[i] == "-" ? "standard input" : source_name(inputs_[i]);
  return {};
}

void DocumentSource::begin_again() {
  TRAINYARD_ASSERT(first_pipe().empty(), "{} is a pipe", first_pipe());
  reading_.reset();
  pairs_reading_.reset();
  next_piece_ = 0;
  bytes_read_ = 0;
  for (auto& piece : pieces_) piece.lines = piece.refused = 0, piece.silent = true;
}

void DocumentSource::take(Share share) {
  if (pairs_in_files())
    throw base::UsageError(
        base::text(
            "$task divides one file where a line begins, and $pairs are two whose lines belong together: they do "
            "not go together"),
        base::text("JSON lines can be divided: paste SOURCE TARGET and jq make them (the page pairs), and $input with "
                   "$pairs-keys reads them"));
  if (const auto pipe = first_pipe(); !pipe.empty())
    throw base::UsageError(base::text("$task needs inputs that every task can open, and {} is a pipe", pipe),
                           "put the text into files; a list of them, @LIST, may be a pipe");
  const auto cuts = [&](std::size_t input) {
    if (json_[input]) return Cuts::lines;
    const auto split = options_.split.value_or(TextSplit::whole);
    return split == TextSplit::lines ? Cuts::lines : split == TextSplit::paragraphs ? Cuts::paragraphs : Cuts::nowhere;
  };
  pieces_ = pieces_of(inputs_, sizes_, share, cuts, options_.poll);
  total_bytes_ = 0;
  for (const auto& piece : pieces_) total_bytes_ += piece.end - piece.begin;
}

// Opens a piece and recognizes its content.
void DocumentSource::begin_piece(std::size_t least) {
  const auto& piece = pieces_[next_piece_];
  const auto& name = inputs_[piece.input];
  const SplitRules rules{options_.split.value_or(TextSplit::whole),
                         json_[piece.input],
                         options_.json_key.value_or("text"),
                         options_.largest_document,
                         options_.chat,
                         options_.fields,
                         options_.pairs,
                         options_.pairs ? options_.pairs->languages_of(piece.input) : PairLanguages()};
  reading_ = std::make_unique<Reading>(name, piece, options_.poll, rules, least);
  reading_->piece = next_piece_;
  reading_->before = bytes_read_;
  ++next_piece_;
  auto& input = reading_->input;
  auto& held = reading_->cutter;
  const auto enough = input.is_pipe() ? foreign_head : byte_order_mark.size();  // a pipe may return one byte at a time
  do {
    const auto n = input.read(held.room(least), least);
    reading_->at_end = n == 0;
    held.take(n);
  } while (!reading_->at_end && held.held().size() < enough);
  if (piece.first && held.held().starts_with(byte_order_mark)) held.drop_front(byte_order_mark.size());
  if (!input.is_pipe()) return;
  const bool json_lines = names_json(name) || begins_like_json(held.held(), options_.split.has_value());
  require_text(reading_->source, "", held.held(), json_lines, false);
  if (names_json(name)) return;
  held.set_json_lines(json_lines);
  if (kinds_.unknown == 0) return;
  --kinds_.unknown;
  ++(json_lines ? kinds_.json : kinds_.plain);
  require_use();
}

bool DocumentSource::next(SourceStretch& out, std::size_t least) {
  if (pairs_in_files()) return next_pairs(out, least);
  if (!reading_) {
    if (!std::exchange(checked_, true)) require_text_everywhere();
    if (next_piece_ == pieces_.size()) return false;
    begin_piece(least);
  }
  auto& r = *reading_;
  bool found = false;
  while (!(found = r.cutter.cut(out.stretch)) && !r.at_end) {
    const auto n = r.input.read(r.cutter.room(least), least);
    r.at_end = n == 0;
    r.cutter.take(n);
  }
  bytes_read_ = r.before + r.input.bytes_taken();
  out.rules = r.cutter.rules();
  out.piece = r.piece;
  out.source = r.source;
  out.last = !found;
  if (found) return true;
  r.cutter.cut_rest(out.stretch);
  reading_.reset();
  if (options_.poll) options_.poll();
  return true;
}

void DocumentSource::settle(const SourceStretch& stretch, const Findings& findings,
                            const std::function<void(const Refusal&)>& refuse) {
  auto& piece = pieces_[stretch.piece];
  for (const auto& fault : findings.faults) refuse({stretch.source, piece.lines + fault.line, fault.reason});
  piece.refused += static_cast<std::int64_t>(findings.faults.size());
  piece.lines += findings.lines;
  piece.silent &= findings.silent;
  if (!stretch.last || !piece.silent || !piece.whole()) return;  // an empty file is reported too
  refuse({stretch.source, 1, empty_document});
  ++piece.refused;
  piece.silent = false;
}

}  // namespace trainyard::data
