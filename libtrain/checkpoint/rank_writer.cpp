// Writing a rank file: the HDF5 library lays it out, the payloads go past it.
#include "libtrain/checkpoint/rank_writer.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <filesystem>

namespace trainyard::checkpoint {

namespace {

const std::vector<base::View>& views_of(const RankPieces& pieces, Kind kind) {
  switch (kind) {
    case Kind::model: return pieces.model;
    case Kind::master: return pieces.master;
    case Kind::m: return pieces.m;
    case Kind::v: return pieces.v;
  }
  return pieces.model;
}

void require_pieces(const RunState& state, const RankPieces& pieces, const std::vector<UnitEntry>& units) {
  for (auto kind : kinds_of(state.dtype)) {
    const auto& views = views_of(pieces, kind);
    TRAINYARD_ASSERT(views.size() == units.size(), "{}: {} pieces for {} units", path_of(kind), views.size(), units.size());
    for (std::size_t u = 0; u < units.size(); ++u)
      TRAINYARD_ASSERT(views[u].count() == units[u].piece && views[u].dtype == dtype_of(kind, state.dtype) && views[u].dense(),
                       "{} of {}: {} elements of {}, expected {} of {}", path_of(kind), units[u].name, views[u].count(), base::name_of(views[u].dtype),
                       units[u].piece, base::name_of(dtype_of(kind, state.dtype)));
  }
}

// Creates the file with empty payloads and returns where they lie.
FileEntry lay_out(const std::string& path, const RunState& state, const RankPieces& pieces, std::int64_t elements) {
  FileEntry entry;
  auto file = io::Hdf5File::create(path);
  file.set_text("/", "format", rank_format);
  file.set_integer("/", "step", state.step);
  file.set_integer("/", "samples_seen", state.samples_seen);
  file.set_integer("/", "tokens_seen", state.tokens_seen);
  file.set_integer("/", "rank", pieces.rank);
  file.set_integer("/", "ranks", pieces.ranks);
  for (auto kind : kinds_of(state.dtype)) {
    const auto dtype = dtype_of(kind, state.dtype);
    const auto offset = file.create_dataset(path_of(kind), dtype, {elements});
    entry.payloads[path_of(kind)] = {offset, elements * base::size_of(dtype), {}};
  }
  file.close();
  return entry;
}

// The logical part of every parameter that lies in this piece.
void add_statistics(Sidecar& sidecar, Kind kind, const UnitEntry& unit, int rank, const base::View& piece) {
  const auto first = rank * unit.piece, end = first + unit.piece;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const auto& p = unit.parameters[i];
    const auto offset = unit.offsets[i], from = std::max(first, offset), to = std::min(end, offset + p.count);
    if (from >= to) continue;
    const auto* data = static_cast<const char*>(piece.data) + (from - first) * base::size_of(piece.dtype);
    sidecar.tensors[std::string(path_of(kind)) + "/" + p.name].add(statistics_of(data, to - from, piece.dtype, from - offset));
  }
}

// Checksums of what lies between the payloads, read back, and of the whole.
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

void write_files(const std::string& base_path, const RunState& state, const RankPieces& pieces, const WriteOptions& options) {
  const auto units = unit_table(state.model, pieces.ranks);
  require_pieces(state, pieces, units);
  Sidecar sidecar{state.step, pieces.rank, pieces.ranks, lay_out(base_path + ".h5", state, pieces, pieces_total(units)), {}, state.writer};
  io::BulkFile file(base_path + ".h5", io::BulkFile::Mode::update);
  io::Pace pace(options.bytes_per_second, options.unthrottled);
  for (auto kind : kinds_of(state.dtype)) {
    auto& payload = sidecar.file.payloads.at(path_of(kind));
    io::BlockWriter out(file, payload.offset, pace);
    for (std::size_t u = 0; u < units.size(); ++u) {
      const auto& piece = views_of(pieces, kind)[u];
      out.write(piece.data, piece.bytes());
      add_statistics(sidecar, kind, units[u], pieces.rank, piece);
    }
    payload.blocks = out.finish();
  }
  finish_entry(sidecar.file, file);
  file.sync();
  file.close();
  base::write_file(base_path + ".json", sidecar_text(sidecar));
}

}  // namespace

void write_rank(const std::string& folder, const RunState& state, const RankPieces& pieces, const WriteOptions& options) {
  TRAINYARD_ASSERT(pieces.rank >= 0 && pieces.rank < pieces.ranks, "rank {} of {}", pieces.rank, pieces.ranks);
  const auto partial = folder + "/" + step_name(state.step) + std::string(base::partial_suffix);
  const auto base_path = partial + "/" + rank_name(pieces.rank);
  try {
    base::make_folders(partial);
    std::filesystem::remove(base_path + ".json");
    write_files(base_path, state, pieces, options);
  } catch (...) {
    std::error_code ignored;
    for (const char* suffix : {".h5", ".json", ".json.partial"}) std::filesystem::remove(base_path + suffix, ignored);
    std::filesystem::remove(partial, ignored);   // only when it is empty
    throw;
  }
}

}  // namespace trainyard::checkpoint
