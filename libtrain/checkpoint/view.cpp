// Maps every logical tensor to its boxes in the rank files.
#include "libtrain/checkpoint/view.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/kind_boxes.h"
#include "libtrain/checkpoint/manifest_text.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace trainyard::checkpoint {

namespace {

io::Box box_of(const Box& box, const Shape& shape) {
  const auto dims = static_cast<std::ptrdiff_t>(shape.size());
  return {{box.start.begin(), box.start.begin() + dims}, {box.count.begin(), box.count.begin() + dims}};
}

std::vector<io::VirtualPart> parts_of(const Manifest& m, const Kind& kind, const ParameterEntry& p,
                                      const std::vector<Place>& places) {
  std::vector<io::VirtualPart> parts;
  for (const auto& place : places) {
    const auto file = rank_name(place.rank) + ".h5";
    const auto elements = m.files.at(file).payloads.at(path_of(kind)).bytes / base::size_of(dtype_of(kind, m.state));
    parts.push_back({file, path_of(kind), place.stored->offset, elements, box_of(place.stored->box, p.shape)});
  }
  return parts;
}

void describe_root(io::Hdf5File& file, const Manifest& m) {
  file.set_text("/", "format", fmt::format("{}/{}", format_name, m.major));
  file.set_text("/", "model", m.state.model.name);
  file.set_text("/", "dtype", base::name_of(m.state.dtype));
  file.set_integer("/", "step", m.state.step);
  file.set_integer("/", "samples_seen", m.state.samples_seen);
  file.set_integer("/", "tokens_seen", m.state.tokens_seen);
  file.set_integer("/", "ranks", m.ranks);
}

}  // namespace

std::int64_t boxes_in_view(const Manifest& m) {
  std::int64_t of_parameters = 0, boxes = 0;
  for (const auto& of_rank : m.boxes) of_parameters += std::ssize(of_rank);
  for (const auto& kind : kinds_of(m.state))  // a state of rows or columns is one box for each parameter
    boxes += shape_of(kind, m.state.optimizer) == StateShape::parameter ? of_parameters : std::ssize(m.parameters);
  return boxes;
}

FileEntry write_view(const std::string& folder, const Manifest& m) {
  const auto path = folder + "/" + view_name;
  const auto partial = path + std::string(base::partial_suffix);
  try {
    auto file = io::Hdf5File::create(partial);
    describe_root(file, m);
    const KindTensors tensors(m.state.optimizer, m.parameters);
    const auto boxes = boxes_of_kinds(m, tensors);
    for (const auto& kind : kinds_of(m.state)) {
      const auto places = places_of(boxes, kind, m.parameters.size());
      for (std::size_t i = 0; i < m.parameters.size(); ++i) {
        if (!tensors.has(kind, i)) continue;
        const auto& p = tensors.of(kind)[i];
        const auto name = path_of(kind, p.name);
        file.create_virtual(name, dtype_of(kind, m.state), p.shape, parts_of(m, kind, p, places[i]));
        for (const auto& alias : p.aliases) file.set_text(name, "alias", alias);
      }
    }
    file.close();
    base::sync_file(partial);
    base::rename_durably(partial, path);
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
  const auto text = base::read_file(path);
  // First write the manifest without the view. So a damaged or missing view causes no error, and an interruption leaves
  // a whole checkpoint.
  base::write_file(path, with_view(text, path, std::nullopt));
  const Reader reader(checkpoint);
  base::write_file(path, with_view(text, path, write_view(checkpoint, reader.manifest())));
}

}  // namespace trainyard::checkpoint
