// Splits inputs into documents with a bounded buffer.
#include "libtrain/data/document_source.h"

#include "libtrain/base/error.h"

#include <simdjson.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unistd.h>

namespace trainyard::data {

namespace {

namespace fs = std::filesystem;

struct Closer {
  void operator()(std::FILE* f) const {
    if (f != stdin) std::fclose(f);
  }
};
using File = std::unique_ptr<std::FILE, Closer>;

File open_input(const std::string& name, const std::function<void()>& poll = {}) {
  if (name == "-") return File(stdin);
  if (fs::is_directory(name)) throw base::InputError(fmt::format("{} is a folder", name), "name its files, or a list with @FILE");
  File f(std::fopen(name.c_str(), "rb"));
  while (!f && errno == EINTR) {   // a named pipe without a writer yet
    if (poll) poll();
    f.reset(std::fopen(name.c_str(), "rb"));
  }
  if (!f) throw base::InputError(fmt::format("cannot read {}: {}", name, std::strerror(errno)), "check the path and its permissions");
  return f;
}

bool names_json(const std::string& name) { return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json"); }

// The longest prefix of at most `limit` bytes that ends between characters.
std::size_t character_boundary(const std::string& text, std::size_t limit) {
  std::size_t n = std::min(limit, text.size());
  if (n == text.size()) return n;
  for (int back = 0; back < 4 && n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80; ++back) --n;
  return n == 0 ? limit : n;
}

}  // namespace

bool is_utf8(const std::string& text) { return simdjson::validate_utf8(text.data(), text.size()); }

// Collects lines into documents and hands them on.
struct DocumentSource::Sink {
  const SourceOptions& options;
  const std::function<bool(std::string&&)>& take;
  const std::function<void(const Refusal&)>& refuse;
  std::string name;
  std::int64_t line = 0, first_line = 1;
  bool go_on = true, silent = true;   // silent: nothing was taken or refused yet
  std::string document = {};
  simdjson::dom::parser parser{};

  void reject(std::int64_t at, const std::string& reason) {
    silent = false;
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
    if (parser.parse(text).get(root)) return reject(line, "not JSON");
    simdjson::dom::element value;
    if (root[options.json_key].get(value)) return reject(line, fmt::format("no key '{}'", options.json_key));
    std::string_view content;
    if (value.get(content)) return reject(line, fmt::format("key '{}' is not text", options.json_key));
    hand_on(std::string(content), line);
  }

  void finish_document() {
    if (!document.empty()) hand_on(std::exchange(document, {}), first_line);
    first_line = line + 1;
  }

  // `text` is one line with its end; `whole` is false for a part of an overlong one.
  void plain_line(const std::string& text, bool whole) {
    const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
    if (options.split == TextSplit::paragraphs && blank && whole) return finish_document();
    if (options.split == TextSplit::lines && blank && whole && document.empty()) {
      first_line = line + 1;
      return;
    }
    document += text;
    while (static_cast<std::int64_t>(document.size()) > options.largest_document && go_on) {
      const auto n = character_boundary(document, static_cast<std::size_t>(options.largest_document));
      hand_on(document.substr(0, n), first_line);
      document.erase(0, n);
      first_line = line;
    }
    if (options.split == TextSplit::lines && whole) finish_document();
  }
};

DocumentSource::DocumentSource(const std::vector<std::string>& inputs, SourceOptions options) : options_(std::move(options)) {
  for (const auto& input : inputs) {
    if (input.size() < 2 || input[0] != '@') {
      inputs_.push_back(input);
      continue;
    }
    std::ifstream list(input.substr(1));
    if (!list) throw base::InputError(fmt::format("cannot read the list {}", input.substr(1)), "@FILE names a file with one path a line");
    for (std::string line; std::getline(list, line);)
      if (!line.empty()) inputs_.push_back(line);
  }
  if (inputs_.empty()) throw base::InputError("there is no input", "give --input FILE, --input - or --input @LIST");
  for (const auto& name : inputs_) {
    if (name == "-") {
      total_bytes_ = -1;
      continue;
    }
    std::error_code error;
    const bool pipe = fs::exists(name, error) && !fs::is_regular_file(name, error) && !fs::is_directory(name, error);
    if (pipe && ::access(name.c_str(), R_OK) == 0) {   // opened once only: its writer must not see it closed
      total_bytes_ = -1;
      continue;
    }
    open_input(name);
    const auto size = fs::file_size(name, error);
    if (error) total_bytes_ = -1;
    else if (total_bytes_ >= 0) total_bytes_ += static_cast<std::int64_t>(size);
  }
}

void DocumentSource::read(const std::function<bool(std::string&&)>& take, const std::function<void(const Refusal&)>& refuse) {
  for (const auto& name : inputs_) {
    const auto file = open_input(name, options_.poll);
    bool json_lines = names_json(name);
    if (name == "-") {
      int first = std::fgetc(file.get());
      while (first == EOF && std::ferror(file.get()) != 0 && errno == EINTR) {
        if (options_.poll) options_.poll();
        std::clearerr(file.get());
        first = std::fgetc(file.get());
      }
      json_lines = first == '{';
      if (first != EOF) std::ungetc(first, file.get());
    }
    current_ = name == "-" ? "standard input" : name;
    Sink sink{options_, take, refuse, current_};
    if (!read_file(file.get(), name, json_lines, sink)) return;
    if (options_.poll) options_.poll();
  }
}

bool DocumentSource::read_file(std::FILE* file, const std::string& name, bool json_lines, Sink& sink) {
  constexpr std::size_t part = 1 << 20;
  std::string line;
  std::vector<char> buffer(part);
  bool inside = false;          // the line goes on from a part handed on before
  const auto emit = [&](bool whole) {
    if (!inside) ++sink.line;
    if (json_lines && !inside) sink.json_line(line, whole && static_cast<std::int64_t>(line.size()) <= options_.largest_document + 1);   // 1: its end
    if (!json_lines) sink.plain_line(line, whole);
    inside = !whole;
    line.clear();
  };
  while (sink.go_on) {
    const auto n = std::fread(buffer.data(), 1, part, file);
    const bool interrupted = std::ferror(file) != 0 && errno == EINTR;
    if (options_.poll) options_.poll();
    if (interrupted) std::clearerr(file);
    else if (n == 0) break;
    bytes_read_ += static_cast<std::int64_t>(n);
    for (std::size_t at = 0; at < n && sink.go_on;) {
      const auto* end = static_cast<const char*>(std::memchr(buffer.data() + at, '\n', n - at));
      const auto stop = end == nullptr ? n : static_cast<std::size_t>(end - buffer.data()) + 1;
      line.append(buffer.data() + at, stop - at);
      at = stop;
      if (end != nullptr) emit(true);
      else if (static_cast<std::int64_t>(line.size()) > options_.largest_document) emit(false);
    }
  }
  if (std::ferror(file)) throw base::InputError(fmt::format("cannot read {}: {}", name, std::strerror(errno)));
  if (sink.go_on && (!line.empty() || inside)) emit(true);
  if (sink.go_on && !json_lines) sink.finish_document();
  if (sink.silent) sink.reject(1, "empty document");   // an empty file is seen, too
  return sink.go_on;
}

}  // namespace trainyard::data
