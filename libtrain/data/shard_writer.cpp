// Writes one HDF5 file for each shard. The file is created at its final length, payloads are written without the
// library, and then it is summed.
#include "libtrain/data/shard_writer.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/thread.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/own_set.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace trainyard::data {

namespace {

// The checksum of a file without the given disjoint ranges.
std::uint32_t crc_outside(const io::BulkFile& file, std::vector<std::pair<std::int64_t, std::int64_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  ranges.emplace_back(file.size(), 0);
  std::uint32_t crc = 0;
  std::int64_t at = 0;
  std::vector<char> buffer;
  for (const auto& [offset, bytes] : ranges) {
    buffer.resize(base::size(std::max<std::int64_t>(0, offset - at)));
    if (!buffer.empty()) file.read(at, buffer.data(), static_cast<std::int64_t>(buffer.size()));
    crc = base::crc32c(buffer.data(), buffer.size(), crc);
    at = offset + bytes;
  }
  return crc;
}

base::DType type_of_tokens(const Tokenizer& tokenizer) {
  return tokenizer.vocabulary() <= 65536 ? base::DType::u16 : base::DType::u32;
}

}  // namespace

SetIndex index_for(const Tokenizer& tokenizer) {
  SetIndex index;
  index.tokenizer = source_name(tokenizer.name());
  index.tokenizer_source = tokenizer.model().empty() ? "bytes" : set_tokenizer_name(tokenizer);
  index.tokenizer_crc32c = tokenizer.crc32c();
  index.vocabulary = tokenizer.vocabulary();
  index.end_of_document = tokenizer.end_of_document();
  index.begin_of_document = tokenizer.begin_of_document();
  return index;
}

void Shard::append(const char* tokens, std::int64_t bytes) {
  while (bytes > 0) {
    const auto in_block = token_bytes % io::block_bytes;
    if (in_block == 0) blocks.push_back(std::make_unique_for_overwrite<char[]>(base::size(io::block_bytes)));
    const auto n = std::min(bytes, io::block_bytes - in_block);
    std::memcpy(blocks.back().get() + in_block, tokens, base::size(n));
    tokens += n;
    bytes -= n;
    token_bytes += n;
  }
}

void ShardFiles::join() noexcept {
  if (thread_.joinable()) thread_.join();
}

void ShardFiles::wait() {
  join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ShardFiles::write(Shard&& shard, ShardEntry& entry) {
  wait();
  shard_ = std::move(shard);
  const auto work = [this, &entry] {
    try {
      entry = write_now(shard_);
      shard_ = {};
    } catch (...) {
      failure_ = std::current_exception();
    }
  };
  try {
    thread_ = base::start_thread("shard writer", work);
  } catch (const std::system_error&) {  // no thread is left
    work();
  }
}

ShardEntry ShardFiles::write_now(const Shard& shard) const {
  const auto path = folder_ + "/" + shard.name;
  base::make_folders(std::filesystem::path(path).parent_path().string());
  const auto dtype = type_of_tokens(tokenizer_);
  const auto token_count = static_cast<std::int64_t>(shard.offsets.back()),
             offset_count = static_cast<std::int64_t>(shard.offsets.size());
  const auto offset_bytes = offset_count * 8;
  std::vector<std::uint32_t> sums;
  std::uint32_t sum = 0;
  const auto bytes_of_block = [&](std::size_t b) {
    return std::min(io::block_bytes, shard.token_bytes - static_cast<std::int64_t>(b) * io::block_bytes);
  };
  for (std::size_t b = 0; b < shard.blocks.size(); ++b) {
    const auto bytes = base::size(bytes_of_block(b));
    sums.push_back(base::crc32c(shard.blocks[b].get(), bytes));
    sum = base::crc32c(shard.blocks[b].get(), bytes, sum);
  }
  auto file = io::Hdf5File::create(path);
  file.set_text("/", "format", shard_format);
  file.set_integer("/", "vocabulary", tokenizer_.vocabulary());
  file.set_integer("/", "end_of_document", tokenizer_.end_of_document());
  file.set_text("/", "tokenizer", tokenizer_.name());
  file.set_integer("/", "tokenizer_crc32c", tokenizer_.crc32c());
  file.write_dataset("/checksums", base::DType::u32, {static_cast<std::int64_t>(sums.size())}, sums.data());
  if (!shard.sources.empty())
    file.write_dataset("/sources", base::DType::u8, {static_cast<std::int64_t>(shard.sources.size())},
                       shard.sources.data());
  if (shard.answers && !shard.answers->empty())
    file.write_dataset("/answers", base::DType::u64, {std::ssize(*shard.answers)}, shard.answers->data());
  shard.fields.write(file);
  if (shard.hashes)
    file.write_dataset("/hashes", base::DType::u64, {2 * std::ssize(*shard.hashes)}, shard.hashes->data());
  const auto token_place = file.create_dataset("/tokens", dtype, {token_count});
  const auto offset_place = file.create_dataset("/documents", base::DType::u64, {offset_count});
  file.close();
  io::BulkFile bulk(path, io::BulkFile::Mode::update);
  for (std::size_t b = 0; b < shard.blocks.size(); ++b) {
    const auto at = token_place + static_cast<std::int64_t>(b) * io::block_bytes;
    bulk.write(at, shard.blocks[b].get(), bytes_of_block(b));
    bulk.begin_sync(at, bytes_of_block(b));
  }
  bulk.write(offset_place, shard.offsets.data(), offset_bytes);
  bulk.sync();
  const auto crc = crc_outside(bulk, {{token_place, shard.token_bytes}});
  ShardEntry entry{shard.name, token_count, offset_count - 1, bulk.size(), token_place, shard.token_bytes, crc, sum};
  entry.field_tokens = shard.fields.tokens();
  entry.fields_crc32c = shard.fields.crc32c();
  if (shard.answers) entry.answers_crc32c = base::crc32c(shard.answers->data(), shard.answers->size() * 8);
  bulk.close();
  base::sync_folder(std::filesystem::path(path).parent_path().string());
  return entry;
}

ShardWriter::ShardWriter(std::shared_ptr<ShardFiles> files, std::string split, const Tokenizer& tokenizer,
                         std::int64_t shard_tokens)
    : files_(std::move(files)), split_(std::move(split)), shard_tokens_(shard_tokens),
      dtype_(type_of_tokens(tokenizer)) {}

void ShardWriter::keep_hashes() {
  keeps_hashes_ = true;
  shard_.hashes.emplace();
}

void ShardWriter::keep_fields(const std::vector<std::string>& names) {
  fields_ = names;
  shard_.fields = DocumentFields(names);
}

void ShardWriter::mark_answers() {
  marks_answers_ = true;
  shard_.answers.emplace();
}

void ShardWriter::add(std::span<const std::int32_t> document, const std::string& source, const DocumentFacts& facts) {
  add(stored(document), std::ssize(document), source, facts);
}

const void* ShardWriter::stored(std::span<const std::int32_t> tokens) {
  if (dtype_ == base::DType::u32) return tokens.data();
  narrowed_.assign(tokens.begin(), tokens.end());
  return narrowed_.data();
}

void ShardWriter::add(const void* tokens, std::int64_t count, const std::string& source, const DocumentFacts& facts) {
  const auto* from = static_cast<const char*>(tokens);
  if (held() > 0 && held() + count > shard_tokens_) close_shard();
  std::int64_t first = 0;
  for (; !keeps_whole_ && count - first > shard_tokens_; first += shard_tokens_) {
    add_piece({from + first * token_bytes(), shard_tokens_, first, source, facts});
    close_shard();
  }
  if (first < count) add_piece({from + first * token_bytes(), count - first, first, source, facts});
}

void ShardWriter::add_piece(const Piece& piece) {
  const auto end = piece.first + piece.count;
  const auto& answers = piece.facts.answers;
  TRAINYARD_ASSERT(answers.empty() || shard_.answers, "{} answers in a set that marks none", answers.size());
  for (const auto& span : answers) {
    const auto from = std::max(span.begin, piece.first), to = std::min(span.end, end);
    if (from >= to) continue;
    shard_.answers->push_back(static_cast<std::uint64_t>(held() + from - piece.first));
    shard_.answers->push_back(static_cast<std::uint64_t>(held() + to - piece.first));
  }
  shard_.fields.add(piece.facts.fields, piece.count);
  if (shard_.hashes) shard_.hashes->push_back(piece.first == 0 ? piece.facts.hash : TextHash());
  if (!piece.source.empty() && piece.source != last_source_) {
    shard_.sources += fmt::format("{}\t{}\n", shard_.offsets.size() - 1, piece.source);
    last_source_ = piece.source;
  }
  shard_.append(piece.tokens, piece.count * token_bytes());
  shard_.offsets.push_back(shard_.offsets.back() + static_cast<std::uint64_t>(piece.count));
  total_tokens_ += piece.count;
  ++total_documents_;
}

void ShardWriter::close_shard() {
  if (shard_.offsets.size() == 1) return;
  shard_.name = fmt::format("{}/shard-{:05}.h5", split_, entries_.size());
  files_->write(std::exchange(shard_, {}), entries_.emplace_back());
  if (marks_answers_) shard_.answers.emplace();
  if (keeps_hashes_) shard_.hashes.emplace();
  shard_.fields = DocumentFields(fields_);
  last_source_.clear();
}

std::vector<ShardEntry> ShardWriter::finish() {
  close_shard();
  files_->wait();
  return {entries_.begin(), entries_.end()};
}

}  // namespace trainyard::data
