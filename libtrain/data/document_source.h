// DocumentSource: text files, JSON lines and standard input as a stream of documents, with a reason for everything that
// is refused.
#pragma once

#include "libtrain/data/document_splitter.h"
#include "libtrain/data/input_files.h"
#include "libtrain/data/share.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data {

struct SourceOptions {
  std::optional<std::string> json_key = {};  // of JSON lines; "text" where it is not said
  std::optional<TextSplit> split = {};       // of plain text; whole where it is not said
  std::int64_t largest_document =
      std::int64_t{16}
      << 20;  // bytes; plain text is cut there (between UTF-8 characters), a longer JSON line is refused
  std::function<void()> poll =
      {};  // called after every read, also one that a signal interrupted; what it throws ends the reading
  FolderRules folders = {};
};

struct Refusal {
  std::string source;     // as source_name() writes it
  std::int64_t line = 0;  // counted from 1
  std::string reason;
};

// "-" is standard input; lists and folders are those of input_files.h. What is gzip or zstd is unpacked
// (io/input_stream.h). Files ending in .jsonl, .ndjson or .json, with .gz, .zst or .zstd behind it or not, hold one
// JSON object a line, others plain text; standard input and pipes of other names hold JSON lines when their first byte
// is '{', and files of other names when json_key is given and their first lines are JSON objects. Without it such a
// file is refused, unless `split` says that it is text: then it gets a warning. So is a JSON list under another name.
// What is no text (foreign_content.h) is refused by the first next(), that of a pipe once it is read; comma- or
// tab-separated values get a warning. A byte order mark at the start of an input or of a JSON line is no part of the
// text. Documents come in the order of the inputs. Memory: that of a StretchCutter.
class DocumentSource {
 public:
  // InputError for a file that cannot be read, UsageError for an option that no input would use (json_key where all is
  // plain text, split where all is JSON lines), before anything is done; where pipes are among the inputs the latter by
  // next(), once it knows what the last of them holds.
  DocumentSource(const std::vector<std::string>& inputs, SourceOptions options);

  ~DocumentSource();

  // From now on next() reads the share alone, up to documents' beginnings (share.h). UsageError where an input is a
  // pipe: other tasks could not read it.
  void take(Share share);
  const std::vector<Piece>& pieces() const { return pieces_; }  // what is read; once it was, with what was found

  // The next stretch of the inputs, of `least` bytes or more but at the end of an input; false: there is none.
  struct SourceStretch {
    Stretch stretch;
    SplitRules rules;
    std::size_t piece = 0;  // of pieces()
    bool last = false;      // of its piece
    std::string source;     // as source_name() writes it
  };
  bool next(SourceStretch& out, std::size_t least = stretch_bytes);
  static constexpr std::size_t stretch_bytes = std::size_t{256} << 10;

  // Takes what was found in a stretch, in the order of next(), and calls refuse(...) for every document that is not
  // good: invalid UTF-8, a line that is no JSON object, a missing key or one that is not text; and for one without text
  // (`empty_document`). Lines are counted from the beginning of a piece.
  void settle(const SourceStretch& stretch, const Findings& findings,
              const std::function<void(const Refusal&)>& refuse);

  std::int64_t total_bytes() const { return total_bytes_; }  // of the share; -1 when an input's size is not known
  std::int64_t bytes_read() const { return bytes_read_; }    // packed, where an input is packed
  const std::vector<std::string>& inputs() const { return inputs_; }
  const SourceOptions& options() const { return options_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }  // of the inputs; -1 of a pipe

 private:
  struct Reading;
  struct Kinds {
    std::size_t plain = 0, json = 0, unknown = 0;
  };  // inputs; of a pipe it is not known before it is read
  void require_text_everywhere();
  void warn_of_tables() const;
  void begin_piece(std::size_t least);
  void require_use() const;

  std::vector<std::string> inputs_;
  std::vector<bool> found_, json_;  // of each: in a folder; JSON lines, as far as is known before it is read
  std::vector<std::int64_t> sizes_;
  std::vector<Piece> pieces_;
  SourceOptions options_;
  Kinds kinds_;
  std::int64_t total_bytes_ = 0, bytes_read_ = 0;
  std::size_t next_piece_ = 0;
  std::unique_ptr<Reading> reading_;  // of the piece before; null: that was read to its end
};

// A path as it stands in /sources, in lists of refusals and on terminals: control characters (tab, line feed and escape
// among them), the backslash, and in a path that is no UTF-8 every byte above 127, are written as in C: \t, \n, \x1b.
std::string source_name(std::string_view path);

}  // namespace trainyard::data
