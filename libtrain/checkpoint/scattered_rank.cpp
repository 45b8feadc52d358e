// Counts the missing elements of each block, reads complete blocks back, and finishes the file.
#include "libtrain/checkpoint/scattered_rank.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/read_file.h"
#include "libtrain/checkpoint/parts.h"
#include "libtrain/checkpoint/rank_index.h"
#include "libtrain/checkpoint/sidecar.h"

#include <algorithm>

namespace trainyard::checkpoint {

std::atomic<std::int64_t> OpenFiles::all_{0};

io::BulkFile& OpenFiles::at(const std::string& path) {
  const auto found = std::find_if(files_.begin(), files_.end(), [&](const auto& k) { return k.file.path() == path; });
  if (found != files_.end()) {
    files_.splice(files_.begin(), files_, found);
    return files_.front().file;
  }
  while (!files_.empty() && (files_.size() >= most || all_ >= most_open_files() / 4)) files_.pop_back();
  files_.emplace_front(path, mode_);
  return files_.front().file;
}

ScatteredRank::ScatteredRank(std::string base_path, const RunState& state, const KindTensors& tensors,
                             const SavedShards& shards, int rank)
    : base_path_(std::move(base_path)), state_(state), all_tensors_(tensors), rank_(rank),
      ranks_(shards.topology().world()), boxes_(shards.boxes(rank)), of_kinds_(boxes_, shards.elements(rank), tensors) {
  std::int64_t next = 0;
  for (const auto& stored : boxes_) {
    const bool trained = !base::at(tensors.parameters(), stored.tensor).frozen;
    trained_offsets_.push_back(trained ? std::exchange(next, next + stored.box.elements()) : -1);
  }
}

std::int64_t ScatteredRank::payload_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& kind : kinds_of(state_)) bytes += of_kinds_.elements(kind) * base::size_of(dtype_of(kind, state_));
  return bytes;
}

bool ScatteredRank::keep_finished() {
  const auto file = base_path_ + ".h5", index_file = base_path_ + ".index", sidecar_file = base_path_ + ".json";
  if (base::file_size(sidecar_file) < 0 || base::file_size(index_file) < 0) return false;
  try {
    auto sidecar = sidecar_from_text(base::read_file(sidecar_file), sidecar_file);
    const auto bytes = base::read_file(index_file);
    if (sidecar.step != state_.step || sidecar.rank != rank_ || sidecar.ranks != ranks_ ||
        sidecar.writer != state_.writer || base::crc32c(bytes.data(), bytes.size()) != sidecar.index.crc ||
        index_from_bytes(bytes, all_tensors_.parameters(), index_file).boxes != boxes_ ||
        base::file_size(file) != sidecar.file.bytes)
      return false;
    const io::BulkFile written(file, io::BulkFile::Mode::read);
    if (io::crc32c_of(written, 0, sidecar.file.bytes) != sidecar.file.crc) return false;
    tensors_ = std::move(sidecar.tensors);
  } catch (const base::InputError&) {  // damaged, or of another version: it will be written anew
    return false;
  }
  finished_ = true;
  return true;
}

std::int64_t ScatteredRank::place_in(const Kind& kind, std::int64_t at) const {
  const auto factored = all_tensors_.factored().find(kind);
  if (factored == all_tensors_.factored().end() || factored->second.shape != StateShape::parameter) return at;
  const auto behind = std::upper_bound(boxes_.begin(), boxes_.end(), at,
                                       [](std::int64_t element, const StoredBox& b) { return element < b.offset; });
  const auto number = behind - boxes_.begin() - 1;
  TRAINYARD_ASSERT(number >= 0 && base::at(trained_offsets_, number) >= 0, "element {} of {} is of no box", at,
                   path_of(kind));
  return base::at(trained_offsets_, number) + at - base::at(boxes_, number).offset;
}

std::int64_t ScatteredRank::per_block(const Kind& kind) const {
  return io::block_bytes / base::size_of(dtype_of(kind, state_));
}

void ScatteredRank::count_missing(const Kind& kind) {
  const auto each = per_block(kind);
  const auto blocks = base::size((of_kinds_.elements(kind) + each - 1) / each);
  auto& payload = payloads_[kind];
  payload.missing = std::make_unique<std::atomic<std::int32_t>[]>(blocks);
  payload.checksums.resize(blocks);
  payload.statistics.resize(blocks);
  for (const auto& stored : boxes(kind))
    for (auto at = stored.offset; at < stored.end();) {
      const auto end = std::min(stored.end(), (at / each + 1) * each);
      payload.missing[base::size(at / each)] += static_cast<std::int32_t>(end - at);
      at = end;
    }
  blocks_left_ += static_cast<std::int64_t>(blocks);
}

void ScatteredRank::lay_out(WritingHands& hands) {
  remove_rank_files(base_path_);
  file_ = std::make_unique<RankFile>(base_path_, state_, all_tensors_.parameters(), rank_, ranks_, of_kinds_);
  blocks_left_ = 1;  // one more, until the blocks of padding alone, which write() never completes, are done
  for (const auto& kind : kinds_of(state_)) count_missing(kind);
  for (const auto& kind : kinds_of(state_))
    for (std::size_t b = 0; b < payloads_[kind].checksums.size(); ++b)
      if (payloads_[kind].missing[b] == 0) check_block(kind, static_cast<std::int64_t>(b), hands);
  block_is_done();
}

void ScatteredRank::write(const Kind& kind, std::int64_t at, std::int64_t count, const void* data,
                          WritingHands& hands) {
  const auto size = base::size_of(dtype_of(kind, state_)), each = per_block(kind);
  hands.files.at(file_->path()).write(file_->payload(kind).offset + at * size, data, count * size);
  auto& payload = payloads_.at(kind);
  for (const auto end = at + count; at < end;) {
    const auto block = at / each, next = std::min(end, (block + 1) * each);
    const auto n = static_cast<std::int32_t>(next - at);
    const auto before = payload.missing[base::size(block)].fetch_sub(n);
    TRAINYARD_ASSERT(before >= n, "{}: {} elements of block {} of {} came twice", file_->path(), n - before, block,
                     path_of(kind));
    if (before == n) check_block(kind, block, hands);
    at = next;
  }
}

// Checks a complete block by reading it back. Where its elements belong follows from the boxes of the file, not from
// the calls of write().
void ScatteredRank::check_block(const Kind& kind, std::int64_t block, WritingHands& hands) {
  const auto dtype = dtype_of(kind, state_);
  const auto size = base::size_of(dtype), first = block * per_block(kind);
  const auto end = std::min(of_kinds_.elements(kind), first + per_block(kind));
  auto& file = hands.files.at(file_->path());
  const auto offset = file_->payload(kind).offset + first * size;
  file.read(offset, hands.block.data(), (end - first) * size);
  file.begin_sync(offset, (end - first) * size);  // the disk writes while the next blocks come
  auto& payload = payloads_.at(kind);
  const auto b = base::size(block);
  payload.checksums[b] = base::crc32c(hands.block.data(), base::size((end - first) * size));
  for_each_box(boxes(kind), first, end, [&](const StoredBox& stored, std::int64_t from, std::int64_t to) {
    Statistics sum;
    const auto& shape = base::at(all_tensors_.of(kind), stored.tensor).shape;
    for_each_run_of_range(shape, stored, from - stored.offset, to - from, [&](const Run& run) {
      sum.add(statistics_of(hands.block.data() + (run.at - first) * size, run.count, dtype, run.element));
    });
    payload.statistics[b].push_back({stored.tensor, sum});
  });
  block_is_done();
}

void ScatteredRank::block_is_done() {
  if (--blocks_left_ == 0) finish();
}

void ScatteredRank::finish() {
  for (const auto& kind : kinds_of(state_)) {
    auto& payload = payloads_.at(kind);
    file_->payload(kind).blocks = std::move(payload.checksums);
    for (const auto& of_block : payload.statistics)
      for (const auto& [tensor, sum] : of_block)
        tensors_[path_of(kind, base::at(all_tensors_.parameters(), tensor).name)].add(sum);
  }
  io::BulkFile file(file_->path(), io::BulkFile::Mode::update);
  file_->finish(file, boxes_, tensors_);
  payloads_.clear();
  finished_ = true;
}

}  // namespace trainyard::checkpoint
