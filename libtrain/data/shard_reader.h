// ShardReader: reads one token shard at any position.
#pragma once

#include "libtrain/data/chat_template.h"
#include "libtrain/data/document_fields.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/data/text_hash.h"
#include "libtrain/io/bulk.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

// Before the HDF5 library opens the file, size and checksum of everything but the tokens are checked, if the index
// recorded them. Every number in the file is compared with the index. The tokens' own checksums are checked block by
// block at first touch. InputError names file and block, also when the file is cut short or removed while it is read.
// Tokens are read with pread(2) and never through a mapping, because a mapping would lose its pages. Only one thread
// may read, and reading allocates nothing.
class ShardReader {
 public:
  ShardReader(const std::string& folder, const SetIndex& index, const ShardEntry& entry);

  std::int64_t tokens() const { return tokens_; }
  std::span<const std::uint64_t> documents() const { return documents_; }  // offsets; one more than documents
  void read(std::int64_t first, std::int64_t count, std::int32_t* out);
  // Tokens that are answers, as ascending ranges apart from one another. Empty where they are not marked.
  std::span<const AnswerSpan> answers() const { return answers_; }
  DocumentFields fields() const;  // of each document; without names where the set keeps none
  // From now on the shard is that of the documents with this value alone, one after another: tokens(), documents(),
  // answers() and read() count these. Call it once, before read().
  void keep_only(const std::string& field, const std::string& value);
  // Of each document, in the parts of a set that leaves out equal ones; {0, 0} of a piece that goes on. Else empty.
  std::vector<TextHash> hashes() const;
  // /sources: each entry names an input and the first document that came from it, in ascending order. Empty where they
  // are not recorded.
  struct Source {
    std::int64_t document = 0;
    std::string name;
  };
  std::vector<Source> sources() const;
  // Checks every token, all checksums, ends of documents, /sources and /fields.
  void verify_all();
  const std::string& path() const { return path_; }

  bool is_open() const { return file_.has_value(); }
  // Closes the file until the next read, so that a set may have more shards than a process may open files. At the next
  // read, a file of another size is refused. If the file is another one or was written to, its blocks are checked
  // again.
  void rest();

 private:
  void check_metadata(const ShardEntry& entry);
  void read_shape(const SetIndex& index, const ShardEntry& entry);
  void read_answers(const io::Hdf5File& h5, const ShardEntry& entry);
  void require_one_dimension(const char* dataset, std::size_t dimensions) const;
  void check_blocks(std::int64_t first_byte, std::int64_t end_byte);
  void read_stored(std::int64_t first, std::int64_t count, std::int32_t* out);
  const io::BulkFile& file();

  // Version of the file's content, as far as the system reports it.
  struct Version {
    std::uint64_t inode = 0;
    std::int64_t changed_seconds = 0, changed_nanoseconds = 0;
    bool operator==(const Version&) const = default;
  };
  Version version() const;

  std::string path_;
  std::optional<io::BulkFile> file_;
  std::int64_t file_bytes_ = 0;
  Version version_;
  base::DType dtype_ = base::DType::u16;
  std::int64_t tokens_ = 0, vocabulary_ = 0, payload_ = 0;  // payload_: where the tokens begin in the file
  std::int32_t end_of_document_ = 0;
  std::optional<std::uint32_t> tokens_crc32c_, fields_crc32c_;
  bool indexed_ = false, divided_ = false;  // divided_: documents may be cut anywhere
  std::vector<std::uint64_t> documents_;
  struct Kept {
    std::int64_t place, first;  // tokens from `place` on are those of the file from `first` on
  };
  std::vector<Kept> kept_;  // empty: all
  std::int64_t file_tokens_ = 0;
  std::vector<AnswerSpan> answers_;
  std::vector<std::uint32_t> sums_;
  std::vector<bool> checked_;
};

}  // namespace trainyard::data
