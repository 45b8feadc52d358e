// DocumentSource: text files, JSON lines and standard input as a stream of documents, with a reason for everything that is refused.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

enum class TextSplit { whole, lines, paragraphs };   // of plain text: one document a file, a line that is not blank, or a run of lines between blank lines

struct SourceOptions {
  std::string json_key = "text";
  TextSplit split = TextSplit::whole;
  std::int64_t largest_document = std::int64_t{16} << 20;   // bytes; plain text is cut there (between UTF-8 characters), a longer JSON line is refused
  std::function<void()> poll = {};   // called after every read, also one that a signal interrupted; what it throws ends the reading
};

struct Refusal {
  std::string source;
  std::int64_t line = 0;       // counted from 1
  std::string reason;
};

// "-" is standard input; "@list" names a file with one path a line. Files ending in .jsonl, .ndjson or .json hold one JSON object a line, others plain text; standard input
// is JSON lines when its first byte is '{'. Documents come in the order of the inputs. Memory: one document and one buffer.
class DocumentSource {
 public:
  DocumentSource(const std::vector<std::string>& inputs, SourceOptions options);   // InputError for a file that cannot be read, before anything is done

  // Calls take(document) for every good one and refuse(...) for every bad one: invalid UTF-8, a line that is no JSON, a missing key or one that is not text, an
  // empty document. take returns false to stop.
  void read(const std::function<bool(std::string&&)>& take, const std::function<void(const Refusal&)>& refuse);

  std::int64_t total_bytes() const { return total_bytes_; }   // -1 when an input's size is not known
  std::int64_t bytes_read() const { return bytes_read_; }
  const std::string& current_input() const { return current_; }   // inside take: where the document comes from
  const std::vector<std::string>& inputs() const { return inputs_; }

 private:
  struct Sink;
  bool read_file(std::FILE* file, const std::string& name, bool json_lines, Sink& sink);

  std::vector<std::string> inputs_;
  SourceOptions options_;
  std::int64_t total_bytes_ = 0, bytes_read_ = 0;
  std::string current_;
};

bool is_utf8(const std::string& text);

}  // namespace trainyard::data
