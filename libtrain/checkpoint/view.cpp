// Mapping every logical tensor to its flat ranges in the rank files.
#include "libtrain/checkpoint/view.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace trainyard::checkpoint {

namespace {

// The parts of one parameter; unit_start is the unit's place in every rank's dataset.
std::vector<io::VirtualPart> parts_of(const Manifest& m, Kind kind, const UnitEntry& unit, std::int64_t unit_start, std::int64_t dataset_size,
                                      const ParameterEntry& p) {
  std::vector<io::VirtualPart> parts;
  for (auto e = p.offset; e < p.offset + p.count;) {
    const auto rank = e / unit.piece;
    const auto end = std::min(p.offset + p.count, (rank + 1) * unit.piece);
    parts.push_back({rank_name(static_cast<int>(rank)) + ".h5", path_of(kind), unit_start + e - rank * unit.piece, dataset_size, end - e, e - p.offset});
    e = end;
  }
  return parts;
}

template <class F> void for_each_tensor(const Manifest& m, F&& f) {
  const auto size = pieces_total(m.units);
  for (auto kind : kinds_of(m.state.dtype)) {
    std::int64_t start = 0;
    for (const auto& unit : m.units) {
      for (const auto& p : unit.parameters) f(kind, p, parts_of(m, kind, unit, start, size, p));
      start += unit.piece;
    }
  }
}

void describe_root(io::Hdf5File& file, const Manifest& m) {
  file.set_text("/", "format", fmt::format("{}/{}", format_name, format_major));
  file.set_text("/", "model", m.state.model.name);
  file.set_text("/", "dtype", base::name_of(m.state.dtype));
  file.set_integer("/", "step", m.state.step);
  file.set_integer("/", "samples_seen", m.state.samples_seen);
  file.set_integer("/", "tokens_seen", m.state.tokens_seen);
  file.set_integer("/", "ranks", m.ranks);
}

}  // namespace

std::int64_t boxes_in_view(const Manifest& m) {
  std::int64_t boxes = 0;
  for_each_tensor(m, [&](Kind, const ParameterEntry& p, const std::vector<io::VirtualPart>& parts) {
    for (const auto& part : parts) boxes += static_cast<std::int64_t>(io::boxes_of(p.shape, part.first, part.count).size());
  });
  return boxes;
}

FileEntry write_view(const std::string& folder, const Manifest& m) {
  const auto path = folder + "/" + view_name;
  const auto partial = path + std::string(base::partial_suffix);
  try {
    auto file = io::Hdf5File::create(partial);
    describe_root(file, m);
    for_each_tensor(m, [&](Kind kind, const ParameterEntry& p, const std::vector<io::VirtualPart>& parts) {
      const auto name = std::string(path_of(kind)) + "/" + p.name;
      file.create_virtual(name, dtype_of(kind, m.state.dtype), p.shape, parts);
      for (const auto& alias : p.aliases) file.set_text(name, "alias", alias);
    });
    file.close();
    base::sync_file(partial);
    std::filesystem::rename(partial, path);
    base::sync_folder(folder);
  } catch (...) {
    std::remove(partial.c_str());
    throw;
  }
  const io::BulkFile written(path, io::BulkFile::Mode::read);
  FileEntry entry;
  entry.bytes = written.size();
  entry.crc = io::crc32c_of(written, 0, entry.bytes);
  return entry;
}

void make_view(const std::string& checkpoint) {
  const auto path = checkpoint + "/manifest.json";
  auto manifest = manifest_from_text(base::read_file(path), path);
  // Without the view first, so that a damaged or missing one does not stand in the way, and an interruption leaves a whole checkpoint.
  manifest.files.erase(view_name);
  base::write_file(path, manifest_text(manifest));
  Reader{checkpoint};
  manifest.files[view_name] = write_view(checkpoint, manifest);
  base::write_file(path, manifest_text(manifest));
}

}  // namespace trainyard::checkpoint
