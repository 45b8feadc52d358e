// DocumentSource: reads text files, JSON lines and standard input as a sequence of documents, with a reason for every
// refusal.
#pragma once

#include "libtrain/data/document_splitter.h"
#include "libtrain/data/input_files.h"
#include "libtrain/data/share.h"
#include "libtrain/data/source_name.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data {

struct SourceOptions {
  std::optional<std::string> json_key = {};  // for JSON lines; "text" if not set
  std::optional<TextSplit> split = {};       // for plain text; whole if not set
  // In bytes. A longer plain text is split there, between UTF-8 characters; a longer JSON line is refused.
  std::int64_t largest_document = std::int64_t{16} << 20;
  // Called after every read, also after one that a signal interrupted. If it throws, the reading ends.
  std::function<void()> poll = {};
  FolderRules folders = {};
  std::shared_ptr<const ChatTemplate> chat = {};  // JSON lines hold conversations
  std::vector<std::string> fields = {};           // keys of JSON lines whose values are kept
  std::shared_ptr<const PairOptions> pairs = {};  // JSON lines hold pairs, or the inputs and other files line by line
};

struct Refusal {
  std::string source;     // as written by source_name()
  std::int64_t line = 0;  // counted from 1
  std::string reason;
};

// Reads the inputs as documents, in the order of the inputs. "-" is standard input; lists and folders are as in
// input_files.h. gzip and zstd inputs are unpacked (io/input_stream.h). Memory: as a StretchCutter.
// - JSON lines: files that end in .jsonl, .ndjson or .json, also followed by .gz, .zst or .zstd. They hold one JSON
//   object a line.
// - Standard input, and pipes of other names, hold JSON lines when their first byte is '{'.
// - Files of other names hold JSON lines when json_key is given and their first lines are JSON objects. Without
//   json_key such a file is refused; if `split` is given, it is read as text, with a warning. A JSON list under another
//   name is refused unless `split` is given.
// - All other inputs are plain text.
// - Pairs in files: inputs are neither lists nor folders, and none holds JSON lines. The files are read side by side
//   (line_pairs.h).
// - Content that is no text (foreign_content.h) is refused by the first next(), or for a pipe when the pipe is read.
//   Comma- or tab-separated values get a warning.
// - A byte order mark at the start of an input or of a JSON line is not part of the text.
class DocumentSource {
 public:
  // InputError for a file that cannot be read. UsageError for an option that no input would use: json_key where all
  // inputs are plain text, or split where all are JSON lines. Both are thrown before anything is read. With pipes among
  // the inputs, next() throws the UsageError once it knows what the last pipe holds.
  DocumentSource(const std::vector<std::string>& inputs, SourceOptions options);

  ~DocumentSource();

  // Restricts next() to this share, whose ends are at beginnings of documents (share.h). UsageError where an input is a
  // pipe, because other tasks could not read it.
  void take(Share share);
  const std::vector<Piece>& pieces() const { return pieces_; }  // what is read; after reading, with the counts found

  // Makes next() begin at the beginning again. No input may be a pipe: first_pipe() is empty.
  void begin_again();
  std::string first_pipe() const;  // "standard input", or the name of the first pipe; empty: no input is a pipe

  // Gets the next stretch of the inputs, of `least` bytes or more, except at the end of an input. False: there is none.
  struct SourceStretch {
    Stretch stretch;
    SplitRules rules;
    std::size_t piece = 0;  // index into pieces()
    bool last = false;      // last stretch of its piece
    std::string source;     // as written by source_name()
  };
  bool next(SourceStretch& out, std::size_t least = stretch_bytes);
  static constexpr std::size_t stretch_bytes = std::size_t{256} << 10;

  // Records what was found in a stretch; call it in the order of next(). It calls refuse(...) for every bad document:
  // invalid UTF-8, a line that is no JSON object, a missing key, or a value that is not text. It also calls refuse for
  // a document without text (`empty_document`). Lines are counted from the beginning of a piece.
  void settle(const SourceStretch& stretch, const Findings& findings,
              const std::function<void(const Refusal&)>& refuse);

  std::int64_t total_bytes() const { return total_bytes_; }  // bytes of the share; -1 when an input's size is unknown
  std::int64_t bytes_read() const { return bytes_read_; }    // before unpacking, where an input is packed
  const std::vector<std::string>& inputs() const { return inputs_; }
  std::vector<std::string> every_file() const;  // the inputs, and the files beside them that hold targets
  const SourceOptions& options() const { return options_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }  // sizes of the inputs; -1 for a pipe

 private:
  struct Reading;
  // Numbers of inputs of each kind. The kind of a pipe is unknown until it is read.
  struct Kinds {
    std::size_t plain = 0, json = 0, unknown = 0;
  };
  void require_text_everywhere();
  bool pairs_in_files() const { return options_.pairs && options_.pairs->in_files(); }
  void add_pair_files(const std::vector<std::string>& inputs);
  bool next_pairs(SourceStretch& out, std::size_t least);
  void warn_of_tables() const;
  void begin_piece(std::size_t least);
  void require_use() const;

  std::vector<std::string> inputs_;
  // For each input: whether it was found in a folder, and whether it holds JSON lines, as far as known before reading.
  std::vector<bool> found_, json_;
  std::vector<std::int64_t> sizes_;
  std::vector<Piece> pieces_;
  SourceOptions options_;
  Kinds kinds_;
  std::int64_t total_bytes_ = 0, bytes_read_ = 0;
  std::size_t next_piece_ = 0;
  bool checked_ = false;                            // require_text_everywhere() was called
  std::unique_ptr<Reading> reading_;                // of the current piece; null: the piece was read to its end
  std::unique_ptr<class LinePairs> pairs_reading_;  // likewise, of pairs in files
  std::int64_t read_before_ = 0;                    // bytes of the pairs of earlier pieces
};

}  // namespace trainyard::data
