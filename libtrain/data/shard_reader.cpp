// Checks, maps and reads a shard.
#include "libtrain/data/shard_reader.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/io/atomic_file.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace trainyard::data {

namespace {

constexpr const char* remedy = "the file is damaged: copy it again, or make the shards again with shard-data";

// What the writer summed: the file without its tokens, whose place the index tells.
std::uint32_t crc_without(const char* map, std::size_t size, std::size_t from, std::size_t bytes) {
  return base::crc32c(map + from + bytes, size - from - bytes, base::crc32c(map, from));
}

}  // namespace

ShardReader::ShardReader(const std::string& folder, const ShardEntry& entry, bool checksummed) : path_(folder + "/" + entry.file) {
  const auto size = io::file_size(path_);
  if (size < 0) throw base::InputError(fmt::format("shard {} is missing", path_), remedy);
  if (checksummed && size != entry.bytes) throw base::InputError(fmt::format("shard {} has {} bytes, the index says {}", path_, size, entry.bytes), remedy);
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw base::InputError(fmt::format("cannot read shard {}: {}", path_, std::strerror(errno)));
  map_bytes_ = static_cast<std::size_t>(size);
  void* map = size > 0 ? ::mmap(nullptr, map_bytes_, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  if (map == MAP_FAILED) throw base::InputError(fmt::format("cannot map shard {} of {} bytes: {}", path_, size, std::strerror(errno)));
  map_ = static_cast<const char*>(map);
  if (checksummed && (entry.payload_offset < 0 || entry.payload_bytes < 0 || entry.payload_bytes > size || entry.payload_offset > size - entry.payload_bytes ||
                      crc_without(map_, map_bytes_, static_cast<std::size_t>(entry.payload_offset), static_cast<std::size_t>(entry.payload_bytes)) != entry.metadata_crc32c))
    throw base::InputError(fmt::format("shard {}: the checksum of its metadata differs from the index", path_), remedy);
  const auto h5 = io::Hdf5File::open(path_);
  if (!h5.has_attribute("/", "format") || h5.text("/", "format") != shard_format)
    throw base::InputError(fmt::format("{} is not a token shard: its attribute format is not {}", path_, shard_format), "datasets/README.md tells what a shard holds");
  vocabulary_ = h5.integer("/", "vocabulary");
  if (vocabulary_ < 1 || vocabulary_ > std::int64_t{1} << 31) throw base::InputError(fmt::format("shard {}: a vocabulary of {}", path_, vocabulary_), "the attribute vocabulary counts the different ids");
  const auto info = h5.info("/tokens");
  if (info.shape.size() != 1 || info.offset < 0 || (info.dtype != base::DType::u16 && info.dtype != base::DType::u32))
    throw base::InputError(fmt::format("shard {}: /tokens is not a contiguous one-dimensional dataset of u16 or u32", path_), "write it without chunks and filters");
  dtype_ = info.dtype;
  tokens_ = info.count();
  payload_ = map_ + info.offset;
  if (info.offset > size || tokens_ > (size - info.offset) / base::size_of(dtype_)) throw base::InputError(fmt::format("shard {} is truncated: {} tokens do not fit into {} bytes", path_, tokens_, size), remedy);
  if (checksummed && (info.offset != entry.payload_offset || tokens_ != entry.tokens || entry.payload_bytes != tokens_ * base::size_of(dtype_)))
    throw base::InputError(fmt::format("shard {}: /tokens does not lie where the index says", path_), remedy);
  const auto boundaries = h5.info("/documents").count();
  if (boundaries < 1 || boundaries > size / 8) throw base::InputError(fmt::format("shard {}: {} document boundaries do not fit into {} bytes", path_, boundaries, size), remedy);
  documents_.resize(static_cast<std::size_t>(boundaries));
  h5.read_dataset("/documents", base::DType::u64, 0, static_cast<std::int64_t>(documents_.size()), documents_.data());
  if (documents_.empty() || documents_.front() != 0 || documents_.back() != static_cast<std::uint64_t>(tokens_) || !std::is_sorted(documents_.begin(), documents_.end()))
    throw base::InputError(fmt::format("shard {}: /documents does not rise from 0 to {} tokens", path_, tokens_), remedy);
  if (checksummed && h5.exists("/checksums")) {
    const auto blocks = h5.info("/checksums").count();
    if (blocks != io::blocks_of(tokens_ * base::size_of(dtype_))) throw base::InputError(fmt::format("shard {}: {} checksums for {} tokens", path_, blocks, tokens_), remedy);
    sums_.resize(static_cast<std::size_t>(blocks));
    h5.read_dataset("/checksums", base::DType::u32, 0, static_cast<std::int64_t>(sums_.size()), sums_.data());
    checked_.resize(sums_.size());
  }
}

ShardReader::ShardReader(ShardReader&& o) noexcept
    : path_(std::move(o.path_)), dtype_(o.dtype_), tokens_(o.tokens_), vocabulary_(o.vocabulary_), map_(std::exchange(o.map_, nullptr)), map_bytes_(o.map_bytes_),
      payload_(o.payload_), documents_(std::move(o.documents_)), sums_(std::move(o.sums_)), checked_(std::move(o.checked_)) {}

ShardReader::~ShardReader() {
  if (map_ != nullptr) ::munmap(const_cast<char*>(map_), map_bytes_);
}

void ShardReader::check_blocks(std::int64_t first_byte, std::int64_t end_byte) {
  const auto bytes = tokens_ * base::size_of(dtype_);
  for (auto b = first_byte / io::block_bytes; b * io::block_bytes < end_byte && b < static_cast<std::int64_t>(sums_.size()); ++b) {
    if (checked_[static_cast<std::size_t>(b)]) continue;
    const auto n = std::min(io::block_bytes, bytes - b * io::block_bytes);
    if (base::crc32c(payload_ + b * io::block_bytes, static_cast<std::size_t>(n)) != sums_[static_cast<std::size_t>(b)])
      throw base::InputError(fmt::format("shard {}: tokens {} to {} differ from their checksum", path_, b * io::block_bytes / base::size_of(dtype_),
                                         (b * io::block_bytes + n) / base::size_of(dtype_)), remedy);
    checked_[static_cast<std::size_t>(b)] = true;
  }
}

void ShardReader::read(std::int64_t first, std::int64_t count, std::int32_t* out) {
  TRAINYARD_ASSERT(first >= 0 && first + count <= tokens_, "tokens {} to {} of {}", first, first + count, tokens_);
  const auto width = base::size_of(dtype_);
  check_blocks(first * width, (first + count) * width);
  const char* p = payload_ + first * width;
  for (std::int64_t i = 0; i < count; ++i, p += width) {
    std::uint32_t token = 0;
    std::memcpy(&token, p, static_cast<std::size_t>(width));
    if (token >= vocabulary_) throw base::InputError(fmt::format("shard {}: token {} at {} lies outside its vocabulary of {}", path_, token, first + i, vocabulary_), remedy);
    out[i] = static_cast<std::int32_t>(token);
  }
}

void ShardReader::verify_all() {
  check_blocks(0, tokens_ * base::size_of(dtype_));
  std::vector<std::int32_t> buffer(1 << 16);
  for (std::int64_t at = 0; at < tokens_; at += static_cast<std::int64_t>(buffer.size()))
    read(at, std::min<std::int64_t>(static_cast<std::int64_t>(buffer.size()), tokens_ - at), buffer.data());
}

}  // namespace trainyard::data
