// Checks and reads a shard.
#include "libtrain/data/shard_reader.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/text.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <sys/stat.h>
#include <utility>

namespace trainyard::data {

namespace {

constexpr const char* remedy = "the file is damaged: copy it again, or make the shards again with shard-data";

// The checksum of bytes [from, end), continued from `crc`, in portions that fit on a stack.
std::uint32_t crc_of(const io::BulkFile& file, std::int64_t from, std::int64_t end, std::uint32_t crc) {
  std::array<char, 64 << 10> piece;
  while (from < end) {
    const auto n = std::min<std::int64_t>(end - from, piece.size());
    file.read(from, piece.data(), n);
    crc = base::crc32c(piece.data(), base::size(n), crc);
    from += n;
  }
  return crc;
}

std::uint32_t token_at(const char* bytes, std::int64_t i, std::int64_t width) {
  std::uint32_t token = 0;
  std::memcpy(&token, bytes + i * width, base::size(width));  // little-endian
  return token;
}

}  // namespace

ShardReader::ShardReader(const std::string& folder, const SetIndex& index, const ShardEntry& entry)
    : path_(folder + "/" + entry.file), tokens_crc32c_(entry.tokens_crc32c), fields_crc32c_(entry.fields_crc32c),
      indexed_(index.checksummed) {
  if (base::file_size(path_) < 0) throw base::InputError(fmt::format("shard {} is missing", path_), remedy);
  file_.emplace(path_, io::BulkFile::Mode::read);
  file_bytes_ = file_->size();
  version_ = version();
  if (indexed_) check_metadata(entry);
  read_shape(index, entry);
}

// Checks what the writer summed: the file without its tokens, whose place the index gives.
void ShardReader::check_metadata(const ShardEntry& e) {
  if (file_bytes_ != e.bytes)
    throw base::InputError(fmt::format("shard {} has {} bytes, the index says {}", path_, file_bytes_, e.bytes),
                           remedy);
  const bool placed = e.payload_offset >= 0 && e.payload_bytes >= 0 && e.payload_bytes <= file_bytes_ &&
                      e.payload_offset <= file_bytes_ - e.payload_bytes;
  if (!placed || crc_of(*file_, e.payload_offset + e.payload_bytes, file_bytes_,
                        crc_of(*file_, 0, e.payload_offset, 0)) != e.metadata_crc32c)
    throw base::InputError(fmt::format("shard {}: the checksum of its metadata differs from the index", path_), remedy);
}

void ShardReader::read_shape(const SetIndex& index, const ShardEntry& entry) {
  const auto h5 = io::Hdf5File::open(path_);
  const auto facts = facts_of(h5);
  if (facts.vocabulary != index.vocabulary || facts.end_of_document != index.end_of_document)
    throw base::InputError(
        fmt::format("shard {}: vocabulary {} and end of document {}, the set has {} and {}", path_, facts.vocabulary,
                    facts.end_of_document, index.vocabulary, index.end_of_document),
        remedy);
  if ((facts.tokenizer && *facts.tokenizer != index.tokenizer) ||
      (facts.tokenizer_crc32c && *facts.tokenizer_crc32c != index.tokenizer_crc32c))
    throw base::InputError(
        fmt::format("shard {}: made with another tokenizer ({}) than the set ({})", path_,
                    base::one_line(facts.tokenizer.value_or("not named")), base::one_line(index.tokenizer)),
        remedy);
  vocabulary_ = facts.vocabulary, end_of_document_ = facts.end_of_document;
  divided_ = index.packed_sequence > 0;
  const auto info = h5.info("/tokens");
  if (info.shape.size() != 1 || info.offset < 0 || (info.dtype != base::DType::u16 && info.dtype != base::DType::u32))
    throw base::InputError(
        fmt::format("shard {}: /tokens is not a contiguous one-dimensional dataset of u16 or u32", path_),
        "write it without chunks and filters");
  dtype_ = info.dtype;
  if (dtype_ == base::DType::u16 && vocabulary_ > 65536)
    throw base::InputError(
        fmt::format("shard {}: /tokens is u16, which does not hold a vocabulary of {}", path_, vocabulary_),
        "write u32 for a vocabulary over 65536");
  tokens_ = info.count();
  payload_ = info.offset;
  if (tokens_ < 0 || info.offset > file_bytes_ || tokens_ > (file_bytes_ - info.offset) / base::size_of(dtype_))
    throw base::InputError(
        fmt::format("shard {} is truncated: {} tokens do not fit into {} bytes", path_, tokens_, file_bytes_), remedy);
  if (indexed_ && (info.offset != entry.payload_offset || tokens_ != entry.tokens ||
                   entry.payload_bytes != tokens_ * base::size_of(dtype_)))
    throw base::InputError(fmt::format("shard {}: /tokens does not lie where the index says", path_), remedy);
  const auto place = h5.info("/documents");
  const auto boundaries = place.count();
  require_one_dimension("/documents", place.shape.size());
  if (boundaries < 1 || boundaries > file_bytes_ / 8)
    throw base::InputError(
        fmt::format("shard {}: {} document boundaries do not fit into {} bytes", path_, boundaries, file_bytes_),
        remedy);
  if (indexed_ && boundaries - 1 != entry.documents)
    throw base::InputError(
        fmt::format("shard {} has {} documents, the index says {}", path_, boundaries - 1, entry.documents), remedy);
  documents_.resize(base::size(boundaries));
  h5.read_dataset("/documents", base::DType::u64, 0, boundaries, documents_.data());
  if (documents_.front() != 0 || documents_.back() != static_cast<std::uint64_t>(tokens_) ||
      !std::is_sorted(documents_.begin(), documents_.end()))
    throw base::InputError(fmt::format("shard {}: /documents does not rise from 0 to {} tokens", path_, tokens_),
                           remedy);
  file_tokens_ = tokens_;
  read_answers(h5, entry);
  if (!indexed_ || !h5.exists("/checksums")) return;
  const auto blocks = h5.info("/checksums").count();
  if (blocks != io::blocks_of(tokens_ * base::size_of(dtype_)))
    throw base::InputError(fmt::format("shard {}: {} checksums for {} tokens", path_, blocks, tokens_), remedy);
  sums_.resize(base::size(blocks));
  h5.read_dataset("/checksums", base::DType::u32, 0, blocks, sums_.data());
  checked_.resize(sums_.size());
}

void ShardReader::require_one_dimension(const char* dataset, std::size_t dimensions) const {
  if (dimensions != 1)
    throw base::InputError(fmt::format("shard {}: {} has {} dimensions, and 1 is expected", path_, dataset, dimensions),
                           "datasets/README.md describes what a shard holds");
}

void ShardReader::read_answers(const io::Hdf5File& h5, const ShardEntry& entry) {
  if (!h5.exists("/answers")) {
    if (indexed_ && entry.answers_crc32c.value_or(0) != 0)
      throw base::InputError(fmt::format("shard {} has no /answers, which the index names", path_), remedy);
    return;
  }
  const auto place = h5.info("/answers");
  const auto count = place.count();
  require_one_dimension("/answers", place.shape.size());
  if (count < 0 || count % 2 != 0 || count > file_bytes_ / 8)
    throw base::InputError(fmt::format("shard {}: {} ends of /answers in {} bytes", path_, count, file_bytes_), remedy);
  std::vector<std::uint64_t> ends(base::size(count));
  h5.read_dataset("/answers", base::DType::u64, 0, count, ends.data());
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < ends.size(); i += 2) {
    if (ends[i] < before || ends[i + 1] <= ends[i] || ends[i + 1] > static_cast<std::uint64_t>(tokens_))
      throw base::InputError(fmt::format("shard {}: /answers does not rise from 0 to {} tokens", path_, tokens_),
                             remedy);
    before = ends[i + 1];
    answers_.push_back({static_cast<std::int64_t>(ends[i]), static_cast<std::int64_t>(ends[i + 1])});
  }
  if (indexed_ && entry.answers_crc32c && base::crc32c(ends.data(), ends.size() * 8) != *entry.answers_crc32c)
    throw base::InputError(fmt::format("shard {}: the checksum of its answers differs from the index", path_), remedy);
}

void ShardReader::rest() { file_.reset(); }

ShardReader::Version ShardReader::version() const {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0) return {};
  return {info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

const io::BulkFile& ShardReader::file() {
  if (file_) return *file_;
  io::BulkFile again(path_, io::BulkFile::Mode::read);
  if (again.size() != file_bytes_)
    throw base::InputError(fmt::format("shard {} has {} bytes, it had {}", path_, again.size(), file_bytes_),
                           "it was changed while it was in use: restore it");
  if (const auto now = version(); now != version_) {
    std::fill(checked_.begin(), checked_.end(), false);
    version_ = now;
  }
  file_.emplace(std::move(again));
  return *file_;
}

void ShardReader::check_blocks(std::int64_t first_byte, std::int64_t end_byte) {
  const auto bytes = file_tokens_ * base::size_of(dtype_);
  for (auto b = first_byte / io::block_bytes;
       b * io::block_bytes < end_byte && b < static_cast<std::int64_t>(sums_.size()); ++b) {
    if (base::at(checked_, b)) continue;
    const auto from = b * io::block_bytes, end = std::min(from + io::block_bytes, bytes);
    if (crc_of(file(), payload_ + from, payload_ + end, 0) != base::at(sums_, b))
      throw base::InputError(fmt::format("shard {}: tokens {} to {} differ from their checksum", path_,
                                         from / base::size_of(dtype_), end / base::size_of(dtype_)),
                             remedy);
    base::at(checked_, b) = true;
  }
}

void ShardReader::read(std::int64_t first, std::int64_t count, std::int32_t* out) {
  TRAINYARD_ASSERT(first >= 0 && first + count <= tokens_, "tokens {} to {} of {}", first, first + count, tokens_);
  if (kept_.empty()) return read_stored(first, count, out);
  auto run =
      std::upper_bound(kept_.begin(), kept_.end(), first, [](auto at, const auto& k) { return at < k.place; }) - 1;
  for (; count > 0; ++run) {
    const auto end = run + 1 == kept_.end() ? tokens_ : (run + 1)->place, n = std::min(count, end - first);
    read_stored(run->first + first - run->place, n, out);
    first += n, count -= n, out += n;
  }
}

void ShardReader::read_stored(std::int64_t first, std::int64_t count, std::int32_t* out) {
  const auto width = base::size_of(dtype_);
  const auto& from = file();
  check_blocks(first * width, (first + count) * width);
  std::array<char, 16 << 10> piece;
  while (count > 0) {
    const auto n = std::min<std::int64_t>(count, static_cast<std::int64_t>(piece.size()) / width);
    from.read(payload_ + first * width, piece.data(), n * width);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto token = token_at(piece.data(), i, width);
      if (token >= vocabulary_)
        throw base::InputError(fmt::format("shard {}: token {} at {} lies outside its vocabulary of {}", path_, token,
                                           first + i, vocabulary_),
                               remedy);
      out[i] = static_cast<std::int32_t>(token);
    }
    first += n, count -= n, out += n;
  }
}

void ShardReader::verify_all() {
  std::vector<std::int32_t> buffer(1 << 16);
  auto end = documents_.begin() + 1;  // a shard's last document may be a part that continues in the next shard
  for (std::int64_t at = 0; at < tokens_; at += static_cast<std::int64_t>(buffer.size())) {
    const auto n = std::min<std::int64_t>(static_cast<std::int64_t>(buffer.size()), tokens_ - at);
    read(at, n, buffer.data());
    for (; indexed_ && !divided_ && end + 1 < documents_.end() && *end <= static_cast<std::uint64_t>(at + n); ++end)
      if (*end > *(end - 1) && buffer[*end - 1 - static_cast<std::uint64_t>(at)] != end_of_document_)
        throw base::InputError(fmt::format("shard {}: document {} does not end with the end of document, {}", path_,
                                           end - documents_.begin() - 1, end_of_document_),
                               remedy);
  }
  if (tokens_crc32c_ && crc_of(file(), payload_, payload_ + tokens_ * base::size_of(dtype_), 0) != *tokens_crc32c_)
    throw base::InputError(fmt::format("shard {}: the checksum of its tokens differs from the index", path_), remedy);
  if (indexed_) sources();
  if (indexed_ && kept_.empty()) fields();
}

DocumentFields ShardReader::fields() const {
  return DocumentFields::read(io::Hdf5File::open(path_), std::ssize(documents_) - 1, fields_crc32c_);
}

void ShardReader::keep_only(const std::string& field, const std::string& value) {
  const auto all = fields();
  std::vector<std::uint64_t> documents{0};
  std::vector<AnswerSpan> answers;
  auto next = answers_.begin();
  for (std::int64_t d = 0; d + 1 < std::ssize(documents_); ++d) {
    const auto begin = static_cast<std::int64_t>(base::at(documents_, d)),
               end = static_cast<std::int64_t>(base::at(documents_, d + 1)),
               place = static_cast<std::int64_t>(documents.back());
    if (!all.has(d, field, value)) continue;
    const bool goes_on = !kept_.empty() && kept_.back().first + place - kept_.back().place == begin;
    if (!goes_on) kept_.push_back({place, begin});
    documents.push_back(static_cast<std::uint64_t>(place + end - begin));
    for (; next != answers_.end() && next->begin < end; ++next) {
      const auto from = std::max(next->begin, begin);
      if (next->end > from) answers.push_back({place + from - begin, place + std::min(next->end, end) - begin});
      if (next->end > end) break;
    }
  }
  if (kept_.empty()) kept_.push_back({0, 0});
  documents_ = std::move(documents), answers_ = std::move(answers);
  tokens_ = static_cast<std::int64_t>(documents_.back());
}

std::vector<TextHash> ShardReader::hashes() const {
  const auto h5 = io::Hdf5File::open(path_);
  if (!h5.exists("/hashes")) return {};
  const auto count = h5.info("/hashes").count();
  if (count != 2 * (std::ssize(documents_) - 1))
    throw base::InputError(
        fmt::format("shard {}: {} numbers of /hashes for {} documents", path_, count, documents_.size() - 1), remedy);
  std::vector<TextHash> out(documents_.size() - 1);
  h5.read_dataset("/hashes", base::DType::u64, 0, count, out.data());
  return out;
}

std::vector<ShardReader::Source> ShardReader::sources() const {
  const auto h5 = io::Hdf5File::open(path_);
  if (!h5.exists("/sources")) return {};
  const auto bytes = h5.info("/sources").count();
  if (bytes < 0 || bytes > file_bytes_)
    throw base::InputError(
        fmt::format("shard {}: /sources of {} bytes does not fit into {}", path_, bytes, file_bytes_), remedy);
  std::string text(base::size(bytes), '\0');
  h5.read_dataset("/sources", base::DType::u8, 0, bytes, text.data());
  std::vector<Source> out;
  std::int64_t before = -1;
  for (std::string_view left = text; !left.empty();) {  // each line is "document TAB source"
    const auto end = left.find('\n');
    const auto line = left.substr(0, end);
    std::int64_t document = -1;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), document);
    if (end == left.npos || error != std::errc() || stop == line.data() + line.size() || *stop != '\t' ||
        document <= before || document + 1 >= static_cast<std::int64_t>(documents_.size()))
      throw base::InputError(fmt::format("shard {}: /sources is damaged behind document {}", path_, before), remedy);
    out.push_back({document, std::string(line.substr(base::size(stop - line.data()) + 1))});
    before = document;
    left.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace trainyard::data
