// Writing a rank file: the HDF5 library lays it out, the payloads go past it.
#include "libtrain/checkpoint/rank_writer.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/rank_index.h"
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

std::int64_t elements_of(const std::vector<base::View>& views) {
  std::int64_t n = 0;
  for (const auto& view : views) n += view.count();
  return n;
}

void require_pieces(const RunState& state, const RankPieces& pieces) {
  const auto elements = elements_of(pieces.model);
  for (auto kind : kinds_of(state.dtype)) {
    const auto& views = views_of(pieces, kind);
    TRAINYARD_ASSERT(elements_of(views) == elements, "{}: {} elements, expected {}", path_of(kind), elements_of(views),
                     elements);
    for (const auto& view : views)
      TRAINYARD_ASSERT(view.dtype == dtype_of(kind, state.dtype) && view.dense(), "{}: a view of {}, expected dense {}",
                       path_of(kind), base::name_of(view.dtype), base::name_of(dtype_of(kind, state.dtype)));
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
    entry.payloads[path_of(kind)] = {elements == 0 ? 0 : offset, elements * base::size_of(dtype), {}};
  }
  file.close();
  return entry;
}

// Of the boxes from `box` on that lie in this view, which begins at element `first` of the dataset. Returns the first
// box that does not.
RankBoxes::const_iterator add_statistics(Sidecar& sidecar, Kind kind, const std::vector<ParameterEntry>& parameters,
                                         RankBoxes::const_iterator box, RankBoxes::const_iterator boxes_end,
                                         const base::View& view, std::int64_t first) {
  const auto end = first + view.count();
  for (; box != boxes_end && box->offset < end; ++box) {
    const auto& p = parameters.at(static_cast<std::size_t>(box->tensor));
    TRAINYARD_ASSERT(box->offset >= first && box->end() <= end, "a box of {} at {} to {} is in no view", p.name,
                     box->offset, box->end());
    auto& statistics = sidecar.tensors[std::string(path_of(kind)) + "/" + p.name];
    for_each_run(p.shape, *box, box->box, [&](const Run& run) {
      statistics.add(statistics_of(static_cast<const char*>(view.data) + (run.at - first) * base::size_of(view.dtype),
                                   run.count, view.dtype, run.element));
    });
  }
  return box;
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

// Name and content of a file that is written at once, for its sidecar.
FileEntry write_small(const std::string& path, const std::string& content) {
  base::write_file(path, content);
  return {static_cast<std::int64_t>(content.size()), base::crc32c(content.data(), content.size()), {}, {}};
}

void write_files(const std::string& base_path, const RunState& state, const RankPieces& pieces,
                 const WriteOptions& options) {
  require_pieces(state, pieces);
  const auto parameters = parameters_of(unit_table(state.model, 1));
  RankIndex index{state.step, pieces.rank, pieces.ranks,
                  lay_out(base_path + ".h5", state, pieces, elements_of(pieces.model)), pieces.boxes};
  Sidecar sidecar{state.step, pieces.rank, pieces.ranks, {}, {}, {}, state.writer};
  io::BulkFile file(base_path + ".h5", io::BulkFile::Mode::update);
  io::Pace pace(options.bytes_per_second, options.unthrottled);
  for (auto kind : kinds_of(state.dtype)) {
    auto& payload = index.file.payloads.at(path_of(kind));
    io::BlockWriter out(file, payload.offset, pace);
    auto box = pieces.boxes.begin();
    std::int64_t first = 0;
    for (const auto& view : views_of(pieces, kind)) {
      out.write(view.data, view.bytes());
      box = add_statistics(sidecar, kind, parameters, box, pieces.boxes.end(), view, first);
      first += view.count();
    }
    TRAINYARD_ASSERT(box == pieces.boxes.end(), "a box lies at {}, beyond the {} elements of {}", box->offset, first,
                     path_of(kind));
    payload.blocks = out.finish();
  }
  finish_entry(index.file, file);
  file.sync();
  file.close();
  sidecar.file = index.file;
  sidecar.index = write_small(base_path + ".index", index_bytes(index, parameters));
  base::write_file(base_path + ".json", sidecar_text(sidecar));
}

}  // namespace

RankBoxes boxes_of_pieces(const plan::ModelConfig& model, int rank, int ranks) {
  return boxes_of_pieces(unit_table(model, ranks), rank);
}

void write_rank(const std::string& folder, const RunState& state, const RankPieces& pieces,
                const WriteOptions& options) {
  TRAINYARD_ASSERT(pieces.rank >= 0 && pieces.rank < pieces.ranks, "rank {} of {}", pieces.rank, pieces.ranks);
  const auto partial = folder + "/" + step_name(state.step) + std::string(base::partial_suffix);
  const auto base_path = partial + "/" + rank_name(pieces.rank);
  try {
    base::make_folders(partial);
    std::filesystem::remove(base_path + ".json");
    write_files(base_path, state, pieces, options);
  } catch (...) {
    std::error_code ignored;
    for (const char* suffix : {".h5", ".index", ".index.partial", ".json", ".json.partial"})
      std::filesystem::remove(base_path + suffix, ignored);
    std::filesystem::remove(partial, ignored);  // only when it is empty
    throw;
  }
}

}  // namespace trainyard::checkpoint
