// One HDF5 file a shard: created at its final length, payloads written past the library, then summed.
#include "libtrain/data/shard_writer.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/own_set.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <cstring>

namespace trainyard::data {

namespace {

// The checksum of a file without the given ranges (sorted, disjoint).
std::uint32_t crc_outside(const io::BulkFile& file, std::vector<std::pair<std::int64_t, std::int64_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  ranges.emplace_back(file.size(), 0);
  std::uint32_t crc = 0;
  std::int64_t at = 0;
  std::vector<char> buffer;
  for (const auto& [offset, bytes] : ranges) {
    buffer.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, offset - at)));
    if (!buffer.empty()) file.read(at, buffer.data(), static_cast<std::int64_t>(buffer.size()));
    crc = base::crc32c(buffer.data(), buffer.size(), crc);
    at = offset + bytes;
  }
  return crc;
}

}  // namespace

SetIndex index_for(const Tokenizer& tokenizer) {
  SetIndex index;
  index.tokenizer = source_name(tokenizer.name());
  index.tokenizer_source = tokenizer.model().empty() ? "bytes" : set_tokenizer_name(tokenizer);
  index.tokenizer_crc32c = tokenizer.crc32c();
  index.vocabulary = tokenizer.vocabulary();
  index.end_of_document = tokenizer.end_of_document();
  return index;
}

ShardWriter::ShardWriter(std::string folder, std::string split, const Tokenizer& tokenizer, std::int64_t shard_tokens)
    : folder_(std::move(folder)), split_(std::move(split)), tokenizer_(tokenizer), shard_tokens_(shard_tokens),
      dtype_(tokenizer.vocabulary() <= 65536 ? base::DType::u16 : base::DType::u32) {}

void ShardWriter::add(std::span<const std::int32_t> document, const std::string& source) {
  const auto held = static_cast<std::int64_t>(offsets_.back());
  if (held > 0 && held + static_cast<std::int64_t>(document.size()) > shard_tokens_) write_shard();
  while (static_cast<std::int64_t>(document.size()) > shard_tokens_) {
    add(document.first(static_cast<std::size_t>(shard_tokens_)), source);
    write_shard();
    document = document.subspan(static_cast<std::size_t>(shard_tokens_));
  }
  if (document.empty()) return;
  if (!source.empty() && source != last_source_) {
    sources_ += fmt::format("{}\t{}\n", offsets_.size() - 1, source);
    last_source_ = source;
  }
  const auto width = static_cast<std::size_t>(base::size_of(dtype_));
  auto at = tokens_.size();
  tokens_.resize(at + document.size() * width);
  for (auto t : document) {
    std::memcpy(tokens_.data() + at, &t, width);  // little-endian
    at += width;
  }
  offsets_.push_back(offsets_.back() + document.size());
  total_tokens_ += static_cast<std::int64_t>(document.size());
  ++total_documents_;
}

void ShardWriter::write_shard() {
  if (offsets_.size() == 1) return;
  base::make_folders(folder_ + "/" + split_);
  const auto name = fmt::format("{}/shard-{:05}.h5", split_, entries_.size());
  const auto path = folder_ + "/" + name;
  const auto token_count = static_cast<std::int64_t>(offsets_.back()),
             offset_count = static_cast<std::int64_t>(offsets_.size());
  const auto token_bytes = static_cast<std::int64_t>(tokens_.size()), offset_bytes = offset_count * 8;
  std::vector<std::uint32_t> sums;
  for (std::int64_t b = 0; b < io::blocks_of(token_bytes); ++b)
    sums.push_back(
        base::crc32c(tokens_.data() + b * io::block_bytes,
                     static_cast<std::size_t>(std::min(io::block_bytes, token_bytes - b * io::block_bytes))));
  auto file = io::Hdf5File::create(path);
  file.set_text("/", "format", shard_format);
  file.set_integer("/", "vocabulary", tokenizer_.vocabulary());
  file.set_integer("/", "end_of_document", tokenizer_.end_of_document());
  file.set_text("/", "tokenizer", tokenizer_.name());
  file.set_integer("/", "tokenizer_crc32c", tokenizer_.crc32c());
  file.write_dataset("/checksums", base::DType::u32, {static_cast<std::int64_t>(sums.size())}, sums.data());
  if (!sources_.empty())
    file.write_dataset("/sources", base::DType::u8, {static_cast<std::int64_t>(sources_.size())}, sources_.data());
  const auto token_place = file.create_dataset("/tokens", dtype_, {token_count});
  const auto offset_place = file.create_dataset("/documents", base::DType::u64, {offset_count});
  file.close();
  io::BulkFile bulk(path, io::BulkFile::Mode::update);
  bulk.write(token_place, tokens_.data(), token_bytes);
  bulk.write(offset_place, offsets_.data(), offset_bytes);
  bulk.sync();
  const auto crc = crc_outside(bulk, {{token_place, token_bytes}});
  entries_.push_back({name, token_count, offset_count - 1, bulk.size(), token_place, token_bytes, crc,
                      base::crc32c(tokens_.data(), tokens_.size())});
  bulk.close();
  tokens_.clear();
  offsets_.assign(1, 0);
  sources_.clear();
  last_source_.clear();
}

std::vector<ShardEntry> ShardWriter::finish() {
  write_shard();
  return entries_;
}

}  // namespace trainyard::data
