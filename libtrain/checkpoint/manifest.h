// The manifest of a checkpoint: which run and step it holds, which ranks wrote it, and the sizes and checksums of all
// files. Together with the indices of the rank files (joined_index.h) it says which part of which tensor lies where. It
// is self-describing: reading it needs no formula.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/run_state.h"
#include "libtrain/plan/blocks/inventory.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

inline constexpr const char* format_name = "trainyard.checkpoint";
inline constexpr int format_major = 2;  // the version that is written; every older one can be read
inline constexpr const char* rank_format = "trainyard.checkpoint.rank/2";

// What a tensor of a checkpoint is to its parameter: the weights of the working dtype (model), their f32 master, or a
// state of the optimizer, by its name.
class Kind {
 public:
  static const Kind model, master;
  static Kind state(std::string name) { return Kind(2, std::move(name)); }
  bool is_state() const { return order_ == 2; }
  const std::string& name() const { return name_; }  // "model", "master", or the name of the state
  auto operator<=>(const Kind&) const = default;

 private:
  Kind(int order, std::string name) : order_(order), name_(std::move(name)) {}
  int order_;
  std::string name_;
};
inline const Kind Kind::model(0, "model");
inline const Kind Kind::master(1, "master");

std::string path_of(const Kind& kind);  // "/model", "/optimizer/master", "/optimizer/m"
// The path of a tensor of this kind: "/optimizer/m/layers.07.attention.q.weight".
std::string path_of(const Kind& kind, const std::string& parameter);
base::DType dtype_of(const Kind& kind, base::DType working);  // the working dtype for model, f32 for the others
// The kinds of tensors that a checkpoint has of every parameter: the model alone, or also what the optimizer keeps. An
// f32 checkpoint has no master, because its model is the master.
std::vector<Kind> kinds_of(base::DType working, Contents contents = Contents::all,
                           const StoredOptimizer& optimizer = {});
std::vector<Kind> kinds_of(const RunState& state);
bool has(const RunState& state, const Kind& kind);  // is it one of kinds_of?
Kind exact_weights(const RunState& state);          // the weights in the highest precision: master, or else model

std::string step_name(std::int64_t step);  // "step-00001000"
std::string rank_name(int rank);           // "rank-00003"

// A logical tensor, which exists once in every kind.
struct ParameterEntry {
  std::string name;
  Shape shape;
  std::int64_t count = 0;
  std::vector<std::string> aliases;  // names of other occurrences of the same weights
  bool operator==(const ParameterEntry&) const = default;
};

std::vector<ParameterEntry> parameters_of(const plan::ModelConfig& model);

// The layout in version 1: where the parameters of a flat parameter group lie. The flat group is divided into equal
// shards. Offsets are in elements. Only the logical elements count; the rest is padding.
struct FlatGroupEntry {
  std::string name;
  std::int64_t shard = 0;  // elements of one rank; the flat group is ranks * shard long
  std::vector<ParameterEntry> parameters;
  std::vector<std::int64_t> offsets;  // of each parameter in the flat group
};
std::vector<ParameterEntry> parameters_of(const std::vector<FlatGroupEntry>& flat_groups);
// The boxes of rank `rank` in version 1, where every rank has one shard of each flat group, back to back.
RankBoxes boxes_of_shards(const std::vector<FlatGroupEntry>& flat_groups, int rank);

// A dataset of a rank file: where it lies in the file, and the CRC32C of each block of io::block_bytes.
struct PayloadEntry {
  std::int64_t offset = 0, bytes = 0;
  std::vector<std::uint32_t> blocks;
};
// A range of bytes between the payloads.
struct RangeEntry {
  std::int64_t offset = 0, bytes = 0;
  std::uint32_t crc = 0;
};
struct FileEntry {
  std::int64_t bytes = 0;
  std::uint32_t crc = 0;                         // of the whole file
  std::map<std::string, PayloadEntry> payloads;  // by dataset path
  std::vector<RangeEntry> metadata;
};

// Fingerprint and sum of squares of a part of a tensor. The sum is kept in two doubles, so that the norm does not
// depend on the parallel layout.
struct Statistics {
  std::uint64_t fingerprint = 0;
  double squares = 0, squares_low = 0;
  void add(const Statistics& other);
  double norm() const;
};
// Statistics of `count` elements (f32 or bf16) that start at `first_index` of the logical tensor.
Statistics statistics_of(const void* data, std::int64_t count, base::DType dtype, std::int64_t first_index);

struct TensorEntry {
  std::uint64_t fingerprint = 0;
  double norm = 0;  // may be NaN
};

// One axis of the grid of ranks that wrote the checkpoint. Ranks that differ along one axis alone are a group of that
// axis.
struct AxisEntry {
  std::string axis;
  int size = 1;
};

struct Manifest {
  int major = format_major;
  RunState state;
  int ranks = 1;
  std::vector<AxisEntry> axes;                // from outer to inner
  std::vector<std::vector<int>> coordinates;  // by rank, one coordinate for each axis
  std::vector<ParameterEntry> parameters;     // in the order of the model
  // By rank; together the boxes hold each element of each parameter once. In version 2 the boxes, and the payloads and
  // metadata of the files, come from the indices.
  std::vector<RankBoxes> boxes;
  std::map<std::string, TensorEntry> tensors;  // by "/model/NAME", "/optimizer/m/NAME", ...
  std::map<std::string, FileEntry> files;      // by name; "checkpoint.h5" only if the view exists
};

// The text of a version 2 manifest, sealed: the last line holds the CRC32C of everything before it.
std::string manifest_text(const Manifest& manifest);
// Parses a manifest. InputError that begins with `where` for a broken seal, another format, a newer major version, or a
// missing key. Unknown keys are ignored. For version 2, read_indices adds the rest.
Manifest manifest_from_text(const std::string& text, const std::string& where);

// The text of a manifest of either version with another entry for the view, or without one. All else stays as it is.
// Throws as manifest_from_text does.
std::string with_view(const std::string& text, const std::string& where, const std::optional<FileEntry>& view);

// The sidecar of a rank file in an unfinished checkpoint: what publish() needs besides the index. It is removed when
// the manifest is there.
struct Sidecar {
  std::int64_t step = 0;
  int rank = 0, ranks = 1;
  FileEntry file, index;                      // only sizes and checksums
  std::map<std::string, Statistics> tensors;  // statistics of the rank's parts
  std::string writer;                         // RunState::writer
};
std::string sidecar_text(const Sidecar& sidecar);
Sidecar sidecar_from_text(const std::string& text, const std::string& where);
std::string writer_of_sidecar(const std::string& text, const std::string& where);  // of any version

std::string hex32(std::uint32_t value);
std::string hex64(std::uint64_t value);

}  // namespace trainyard::checkpoint
