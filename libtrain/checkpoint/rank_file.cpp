// Lays out and finishes a rank file.
#include "libtrain/checkpoint/rank_file.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/checkpoint/rank_index.h"
#include "libtrain/checkpoint/sidecar.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace trainyard::checkpoint {

namespace {

// Reads back what lies between the payloads and adds its checksums, and the checksum of the whole file.
void finish_entry(FileEntry& entry, const io::BulkFile& file) {
  entry.bytes = file.size();
  std::vector<const PayloadEntry*> payloads;
  for (const auto& [name, p] : entry.payloads) payloads.push_back(&p);
  std::sort(payloads.begin(), payloads.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  std::int64_t at = 0;
  const auto metadata_to = [&](std::int64_t end) {
    if (end <= at) return;
    entry.metadata.push_back({at, end - at, io::crc32c_of(file, at, end - at)});
    entry.crc = io::crc32c_combine(entry.crc, entry.metadata.back().crc, end - at);
  };
  for (const auto* p : payloads) {
    metadata_to(p->offset);
    for (std::size_t b = 0; b < p->blocks.size(); ++b) {
      const auto done = static_cast<std::int64_t>(b) * io::block_bytes;
      entry.crc = io::crc32c_combine(entry.crc, p->blocks[b], std::min(io::block_bytes, p->bytes - done));
    }
    at = p->offset + p->bytes;
  }
  metadata_to(entry.bytes);
}

// Writes a small file and returns its entry for the sidecar.
FileEntry write_small(const std::string& path, const std::string& content) {
  base::write_file(path, content);
  return {static_cast<std::int64_t>(content.size()), base::crc32c(content.data(), content.size()), {}, {}};
}

}  // namespace

RankFile::RankFile(std::string base_path, const RunState& state, const std::vector<ParameterEntry>& parameters,
                   int rank, int ranks, const KindBoxes& boxes)
    : base_path_(std::move(base_path)), path_(base_path_ + ".h5"), step_(state.step), rank_(rank), ranks_(ranks),
      writer_(state.writer), parameters_(parameters) {
  std::filesystem::remove(base_path_ + ".json");
  auto file = io::Hdf5File::create(path_);
  file.set_text("/", "format", rank_format);
  file.set_integer("/", "step", state.step);
  file.set_integer("/", "samples_seen", state.samples_seen);
  file.set_integer("/", "tokens_seen", state.tokens_seen);
  file.set_integer("/", "rank", rank);
  file.set_integer("/", "ranks", ranks);
  for (const auto& kind : kinds_of(state)) {
    const auto dtype = dtype_of(kind, state);
    const auto elements = boxes.elements(kind);
    const auto offset = file.create_dataset(path_of(kind), dtype, {elements});
    index_.payloads[path_of(kind)] = {elements == 0 ? 0 : offset, elements * base::size_of(dtype), {}};
  }
  file.close();
}

void RankFile::finish(io::BulkFile& file, RankBoxes boxes, std::map<std::string, Statistics> tensors) {
  finish_entry(index_, file);
  file.sync();
  file.close();
  const RankIndex index{step_, rank_, ranks_, index_, std::move(boxes)};
  Sidecar sidecar{step_, rank_, ranks_, index_, {}, std::move(tensors), writer_};
  sidecar.index = write_small(base_path_ + ".index", index_bytes(index, parameters_));
  base::write_file(base_path_ + ".json", sidecar_text(sidecar));
}

void remove_rank_files(const std::string& base_path) {
  std::error_code ignored;
  for (const char* suffix : {".json", ".json.partial", ".h5", ".index", ".index.partial"})
    std::filesystem::remove(base_path + suffix, ignored);
}

}  // namespace trainyard::checkpoint
