// Reads slices of a checkpoint through its manifest.
#include "libtrain/checkpoint/reader.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/joined_index.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/checkpoint/manifest_text.h"
#include "libtrain/checkpoint/refuse.h"
#include "libtrain/io/system_error.h"
#include "libtrain/plan/blocks/held.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace trainyard::checkpoint {

namespace {

// A hint for a path that is a run: it names the run's newest checkpoint.
std::string way_to_one(const std::string& path, const std::string& otherwise) {
  for (const auto& folder : {path + "/checkpoints", path})
    if (const auto held = list(folder); !held.empty())
      return fmt::format("give one of its checkpoints: {}", held.front().path);
  return otherwise;
}

// A hint for an abandoned name. A run that goes back to an abandoned checkpoint gives it its old name again.
std::string way_to_old_name(const std::string& path) {
  constexpr std::string_view aside = "abandoned-";
  const auto name = std::filesystem::path(path).filename().string();
  const auto old = base::parent_of(path) + "/" + name.substr(std::min(name.size(), aside.size()), step_name(0).size());
  std::error_code error;
  if (!name.starts_with(aside) || !std::filesystem::is_directory(old, error))
    return "check the path; a checkpoint is a folder called step-NNNNNNNN";
  return base::text("the run resumed from it and renamed it to {}: go on with $resume auto", old);
}

}  // namespace

std::string manifest_text(const std::string& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  if (base::is_unreadable(error.value())) io::throw_cannot_read("look at", path, error.value());
  if (std::filesystem::symlink_status(path, error).type() == std::filesystem::file_type::not_found)
    throw base::InputError(fmt::format("checkpoint {} does not exist", path), way_to_old_name(path));
  if (!folder)
    throw base::InputError(fmt::format("{} is not a checkpoint folder", path),
                           "give the path of a folder called step-NNNNNNNN");
  const auto file = path + "/manifest.json";
  if (std::string_view(path).ends_with(base::partial_suffix))
    throw base::InputError(fmt::format("{} is an unfinished checkpoint", path),
                           "its writer was interrupted: use another one, and remove this folder");
  if (!std::filesystem::exists(file, error) && !base::is_unreadable(error.value()))
    throw base::InputError(fmt::format("{} holds no manifest.json, so it is no checkpoint", path),
                           way_to_one(path, "give the path of a folder called step-NNNNNNNN, or restore the manifest"));
  return base::read_file(file);
}

RunState read_state(const std::string& path) {
  const auto folder = base::without_slashes(path);
  return manifest_from_text(manifest_text(folder), folder + "/manifest.json").state;
}

Reader::Reader(std::string path, Check check) : path_(base::without_slashes(std::move(path))) {
  auto known = std::make_shared<Known>();
  auto& m = known->manifest;
  m = manifest_from_text(manifest_text(path_), path_ + "/manifest.json");
  read_indices(m, path_);
  for (std::size_t i = 0; i < m.parameters.size(); ++i) known->numbers[m.parameters[i].name] = i;
  known->tensors = KindTensors(m.state.optimizer, m.parameters);
  known->boxes = boxes_of_kinds(m, known->tensors);
  known->places = places_of(known->boxes, Kind::model, m.parameters.size());
  for (const auto& [kind, factored] : known->tensors.factored())
    known->factored_places[kind] = places_of(known->boxes, kind, m.parameters.size());
  known_ = std::move(known);
  if (check == Check::as_needed) return;
  try {
    check_view();
  } catch (const base::InputError& e) {
    view_problem_ = e.what();
  }
  if (check == Check::all_but_payloads || layout_is_ours(manifest())) check_files();
  else verify_all();  // only fingerprints can tell another version's layout from a wrong offset
}

const std::vector<std::vector<Place>>& Reader::Known::places_of(const Kind& kind) const {
  const auto found = factored_places.find(kind);
  return found == factored_places.end() ? places : found->second;
}

const RankBoxes& Reader::boxes(const Kind& kind, int rank) const { return base::at(known_->boxes, rank).of(kind); }

void Reader::check_files() const {
  for (const auto& [name, entry] : manifest().files)
    if (name != view_name) check_file(name, entry);
  for (const auto& [name, entry] : manifest().files)
    if (name != view_name) check_metadata(name, entry);
  for (const auto& [name, entry] : manifest().files)
    if (name != view_name) check_attributes(name, entry);
}

void Reader::check_view() const {
  const auto view = manifest().files.find(view_name);
  if (view == manifest().files.end()) return;
  check_file(view->first, view->second);
  check_metadata(view->first, view->second);
  check_attributes(view->first, view->second);
}

void Reader::check_file(const std::string& name, const FileEntry& entry) const {
  const auto file = path_ + "/" + name;
  const auto found = base::file_size(file);
  if (found < 0) throw base::InputError(fmt::format("{} is missing", file), way_to_whole());
  if (found != entry.bytes)
    throw base::InputError(fmt::format("{} has {} bytes, expected {}", file, found, entry.bytes), way_to_whole());
}

void Reader::check_metadata(const std::string& name, const FileEntry& entry) const {
  const io::BulkFile file(path_ + "/" + name, io::BulkFile::Mode::read);
  const auto check = [&](std::int64_t offset, std::int64_t bytes, std::uint32_t expected) {
    const auto found = io::crc32c_of(file, offset, bytes);
    if (found != expected)
      throw base::InputError(
          fmt::format("{} is damaged between bytes {} and {} (HDF5 metadata): checksum {}, expected {}", file.path(),
                      offset, offset + bytes, hex32(found), hex32(expected)),
          name == view_name ? "remove it and make it anew with inspect --make-view, or restore it from a copy"
                            : way_to_whole());
  };
  if (entry.payloads.empty()) return check(0, entry.bytes, entry.crc);
  for (const auto& range : entry.metadata) check(range.offset, range.bytes, range.crc);
}

std::int64_t Reader::bytes() const {
  std::int64_t n = 0;
  for (const auto& [name, entry] : manifest().files) n += entry.bytes;
  return n;
}

std::vector<TensorInfo> Reader::tensors() const {
  std::vector<TensorInfo> out;
  for (const auto& kind : kinds_of(state()))
    for (const auto& p : tensors_of(kind)) {
      if (p.frozen && kind != Kind::model) continue;
      TensorInfo t{path_of(kind, p.name), p.name, kind, p.shape, dtype_of(kind, state()), 0, 0, p.aliases};
      if (const auto at = manifest().tensors.find(t.path); at != manifest().tensors.end()) {
        t.norm = at->second.norm;
        t.fingerprint = at->second.fingerprint;
      }
      out.push_back(std::move(t));
    }
  return out;
}

bool Reader::holds(const plan::FlatGroup& flat_group) const {
  return std::any_of(flat_group.parameters.begin(), flat_group.parameters.end(),
                     [&](const auto& p) { return known_->numbers.contains(p.name); });
}

std::size_t Reader::number_of(const std::string& name) const {
  const auto at = known_->numbers.find(name);
  if (at == known_->numbers.end())
    throw base::InputError(
        fmt::format("{} has no tensor called {} (it holds a {} model)", path_, name, state().model.name),
        "the model must be the one that was saved: compare with inspect");
  return at->second;
}

const char* Reader::block(int rank, const Kind& kind, std::int64_t index) {
  if (staged_rank_ == rank && staged_kind_ == kind && staged_block_ == index) return staging_.data();
  const auto name = rank_name(rank) + ".h5";
  if (open_rank_ != rank) {
    open_rank_ = -1;
    check_file(name, manifest().files.at(name));
    file_.emplace(path_ + "/" + name, io::BulkFile::Mode::read);
    open_rank_ = rank;
  }
  const auto& payload = manifest().files.at(name).payloads.at(path_of(kind));
  const auto start = index * io::block_bytes, bytes = std::min(io::block_bytes, payload.bytes - start);
  staging_.resize(base::size(io::block_bytes));
  staged_rank_ = -1;
  file_->read(payload.offset + start, staging_.data(), bytes);
  bytes_read_ += bytes;
  if (!leaves_cache_) {
    file_->forget(payload.offset + start, bytes);
    if (const auto next = start + bytes; next < payload.bytes)  // most often it is wanted next
      file_->will_read(payload.offset + next, std::min(io::block_bytes, payload.bytes - next));
  }
  check_block(rank, kind, index, staging_.data());
  staged_rank_ = rank;
  staged_kind_ = kind;
  staged_block_ = index;
  return staging_.data();
}

void Reader::check_block(int rank, const Kind& kind, std::int64_t index, const char* data) const {
  const auto name = rank_name(rank) + ".h5";
  const auto& payload = manifest().files.at(name).payloads.at(path_of(kind));
  const auto start = index * io::block_bytes, bytes = std::min(io::block_bytes, payload.bytes - start);
  const auto found = base::crc32c(data, base::size(bytes));
  const auto expected = base::at(payload.blocks, index);
  if (found == expected) return;
  const auto size = base::size_of(dtype_of(kind, state()));
  throw base::InputError(fmt::format("{}/{} is damaged between bytes {} and {}: checksum {}, expected {}; it holds {}",
                                     path_, name, payload.offset + start, payload.offset + start + bytes, hex32(found),
                                     hex32(expected), tensors_in(rank, kind, start / size, bytes / size)),
                         way_to_whole());
}

void Reader::read_run(int rank, const Kind& kind, const Run& run, float* out) {
  const auto dtype = dtype_of(kind, state());
  const auto size = base::size_of(dtype), per_block = io::block_bytes / size;
  for (auto at = run.at, end = run.at + run.count; at < end;) {
    const auto n = std::min(end, (at / per_block + 1) * per_block) - at;
    const char* data = block(rank, kind, at / per_block) + at % per_block * size;
    base::to_f32(dtype, data, n, out);
    at += n;
    out += n;
  }
}

void Reader::read_boxes(const Kind& kind, const std::string& name, const std::vector<Box>& boxes, float* out) {
  const auto number = number_of(name);
  const bool frozen = manifest().parameters[number].frozen;
  const auto stored_kind = kind == Kind::master ? (frozen ? Kind::model : exact_weights(state())) : kind;
  TRAINYARD_ASSERT(known_->tensors.has(stored_kind, number), "{} of {}, which is frozen", kind.name(), name);
  if (state().contents == Contents::model && stored_kind != Kind::model)
    throw base::InputError(fmt::format("{} holds the weights alone, without the states of the optimizer", path_),
                           base::text("a new run begins with its weights: $init-from"));
  if (!has(state(), stored_kind))
    throw base::InputError(
        fmt::format("{} holds no state '{}': its optimizer is {}, with {}", path_, stored_kind.name(),
                    state().optimizer.name, fmt::join(state().optimizer.states, ", ")),
        "take the optimizer of the run that wrote it");
  const auto dims = tensors_of(stored_kind)[number].shape.size();
  for (const auto& place :
       known_->places_of(stored_kind)[number]) {  // in the order of the files, so that a block is read once
    auto* to = out;
    for (const auto& box : boxes) {
      if (const auto part = common_part(place.stored->box, box))
        for_each_run(dims, *place.stored, box, *part,
                     [&](const Run& run) { read_run(place.rank, stored_kind, run, to + run.element); });
      to += box.elements();
    }
  }
}

void Reader::read_tensor(const Kind& kind, const std::string& name, std::int64_t first, std::int64_t count,
                         float* out) {
  const auto& p = tensors_of(kind == Kind::master ? Kind::model : kind)[number_of(name)];
  TRAINYARD_ASSERT(first >= 0 && count >= 0 && count <= p.count && first <= p.count - count,
                   "{}: elements {} + {} of {}", name, first, count, p.count);
  read_boxes(kind, name, boxes_of_range(p.shape, first, count), out);
}

void Reader::require_shape(const plan::Parameter& p) const {
  if (const auto& stored = manifest().parameters[number_of(p.name)]; stored.shape != p.shape)
    throw base::InputError(
        fmt::format("{}: {} has shape {}, expected {}", path_, p.name, shape_text(stored.shape), shape_text(p.shape)),
        "the model must be the one that was saved: compare with inspect");
}

std::vector<float> Reader::read_tensor(const Kind& kind, const plan::Parameter& p) {
  require_shape(p);
  const auto count = tensors_of(kind)[number_of(p.name)].count;
  std::vector<float> out(base::size(count));
  read_tensor(kind, p.name, 0, count, out.data());
  return out;
}

void Reader::read_shard(const Kind& kind, const plan::FlatGroup& flat_group, const plan::Topology& topology, int rank,
                        float* out) {
  read_range(kind, {flat_group, topology, rank, 0, plan::layout(flat_group, topology).shard}, out);
}

void Reader::read_range(const Kind& kind, const PartOfShard& range, float* out) {
  TRAINYARD_ASSERT(shape_of(kind, state().optimizer) == StateShape::parameter, "{} has no shards", path_of(kind));
  for (const auto& p : range.flat_group.parameters) require_shape(p);
  const auto layout = plan::layout(range.flat_group, range.topology);
  TRAINYARD_ASSERT(range.first >= 0 && range.count >= 0 && range.count <= layout.shard - range.first,
                   "elements {} + {} of a shard of {}", range.first, range.count, layout.shard);
  const auto begin =
      plan::place_in_group(range.topology, range.rank, range.flat_group.group) * layout.shard + range.first;
  std::fill_n(out, range.count, 0.0f);
  for (const auto& held : plan::held_ranges(layout, begin, begin + range.count)) {
    const auto& p = range.flat_group.parameters[held.parameter];
    read_boxes(kind, p.name, boxes_of_held(p, plan::held_part(p, range.topology, range.rank), held.first, held.count),
               out + held.at);
  }
}

}  // namespace trainyard::checkpoint
