// Reader: reads any slice of any tensor of a checkpoint, whatever parallel layout wrote it. Every byte is checked
// before it is used.
#pragma once

#include "libtrain/checkpoint/kind_boxes.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/io/bulk.h"
#include "libtrain/plan/blocks/inventory.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trainyard::checkpoint {

struct TensorInfo {
  std::string path;  // "/optimizer/m/layers.07.attention.q.weight"
  std::string name;  // "layers.07.attention.q.weight"
  Kind kind = Kind::model;
  std::vector<std::int64_t> shape;  // logical
  base::DType dtype = base::DType::f32;
  double norm = 0;
  std::uint64_t fingerprint = 0;
  std::vector<std::string> aliases;
};

// Elements [first, first + count) of the shard of `flat_group` that rank `rank` of `topology` has.
struct PartOfShard {
  const plan::FlatGroup& flat_group;
  const plan::Topology& topology;
  int rank;
  std::int64_t first, count;
};

// Reads payloads past the HDF5 library: it follows the mapping itself, with pread from the rank files. Memory: the
// manifest, the indices and one block of staging. Everything throws InputError (base::Unreadable where the system
// cannot read). The error has the file, what was expected and found, and what to do. Elements outside a tensor are a
// caller's mistake: std::logic_error. For one thread.
class Reader {
 public:
  // How much the constructor checks.
  // all_files: the manifest (seal, format and major version, every number and name), and the checksums of all metadata.
  // Every file but the view must be there with its size, and its attributes must agree with the manifest. All bytes are
  // checked too if parameters lie elsewhere than this build would put them.
  // all_but_payloads: the same without those bytes, for callers that read every byte anyway and compare the
  // fingerprints.
  // as_needed: now only the manifest and the indices; the size of a rank file when its first slice is read. For a rank
  // of a large world that reads few files, after one rank has checked all.
  enum class Check { all_files, all_but_payloads, as_needed };
  explicit Reader(std::string path, Check check = Check::all_files);

  // Another reader of the same checkpoint, for another thread. It shares the parsed manifest and indices.
  Reader another() const { return Reader(path_, known_); }

  const RunState& state() const { return known_->manifest.state; }
  const Manifest& manifest() const { return known_->manifest; }
  const std::string& path() const { return path_; }
  std::int64_t bytes() const;  // of all files that the manifest names
  // Why checkpoint.h5, which the manifest names, cannot be used: missing or damaged. "" if it can, or if it was not
  // checked (as_needed). Nothing is read through it, and make_view can write it again, so a checkpoint is whole without
  // it.
  const std::string& view_problem() const { return view_problem_; }
  std::vector<TensorInfo> tensors() const;  // by kind (kinds_of), then in the order of the manifest's parameters
  bool holds(const plan::FlatGroup& flat_group) const;   // any of its parameters
  std::size_t number_of(const std::string& name) const;  // index of a parameter in the manifest
  // The parameters with the shape and count that their tensors of a kind have, in the order of the manifest.
  const std::vector<ParameterEntry>& tensors_of(const Kind& kind) const { return known_->tensors.of(kind); }
  const RankBoxes& boxes(const Kind& kind, int rank) const;  // where its tensors lie in the rank's dataset

  // Reads the shard of `flat_group` that rank `rank` of `topology` has into `out` as f32; the group is one of the
  // reading model. `out` has plan::layout(flat_group, topology).shard elements. Narrow values are widened, and padding
  // is 0. Parameters are found by name; a name or shape that the checkpoint does not have is an error. If the
  // checkpoint has no Kind::master, or none of a frozen parameter, its model is read instead. Asking for a state that
  // the checkpoint does not hold is an error. The checksum of every block is compared before any of its bytes is
  // returned. A state of rows or columns has no shards: std::logic_error.
  void read_shard(const Kind& kind, const plan::FlatGroup& flat_group, const plan::Topology& topology, int rank,
                  float* out);
  // The same for a part of a shard; `out` has range.count elements.
  void read_range(const Kind& kind, const PartOfShard& range, float* out);

  // From now on, blocks that were read do not stay in the system's page cache, and the system is asked to load the next
  // block of a file meanwhile. For checkpoints larger than memory.
  void leave_no_cache() { leaves_cache_ = false; }
  // Bytes of payloads that were read so far, in whole blocks.
  std::int64_t bytes_read() const { return bytes_read_; }

  // Reads the whole tensor of a parameter of the reading model, as f32: for states of rows and columns, which each rank
  // that holds part of the parameter reads whole. Otherwise as read_shard.
  std::vector<float> read_tensor(const Kind& kind, const plan::Parameter& parameter);

  // Reads elements [first, first + count) of the flat logical tensor of the kind, as f32.
  void read_tensor(const Kind& kind, const std::string& name, std::int64_t first, std::int64_t count, float* out);
  // Reads boxes of a logical tensor one after the other, the elements of each in row-major order, as f32.
  void read_boxes(const Kind& kind, const std::string& name, const std::vector<Box>& boxes, float* out);

  // For callers that read blocks into their own memory; several threads may call it. `data` is block `index` of the
  // payload of `kind` in the file of `rank`. InputError naming file, tensor and element range when its checksum
  // differs.
  void check_block(int rank, const Kind& kind, std::int64_t index, const char* data) const;

  // Reads every byte. InputError naming file, tensor and element range of the first damaged blocks, or a fingerprint
  // that differs. A view that exists and is damaged is an error too. `watch`, when given, is called now and then with
  // the bytes read so far and in total.
  using Watch = std::function<void(std::int64_t done, std::int64_t total)>;
  void verify_all(const Watch& watch = {});

 private:
  struct Known {
    Manifest manifest;
    std::unordered_map<std::string, std::size_t> numbers;  // indices of parameters, by name
    KindTensors tensors{{}, manifest.parameters};
    std::vector<KindBoxes> boxes;                                     // of each rank
    std::vector<std::vector<Place>> places;                           // of the boxes of each parameter
    std::map<Kind, std::vector<std::vector<Place>>> factored_places;  // the same, of states of rows and columns

    const std::vector<std::vector<Place>>& places_of(const Kind& kind) const;
  };
  Reader(std::string path, std::shared_ptr<const Known> known) : path_(std::move(path)), known_(std::move(known)) {}
  void check_file(const std::string& name, const FileEntry& entry) const;
  void check_metadata(const std::string& name, const FileEntry& entry) const;
  void check_attributes(const std::string& name, const FileEntry& entry) const;  // HDF5; after check_metadata
  void check_files() const;
  const char* block(int rank, const Kind& kind, std::int64_t index);  // checked
  void read_run(int rank, const Kind& kind, const Run& run, float* out);
  void require_shape(const plan::Parameter& parameter) const;
  std::string tensors_in(int rank, const Kind& kind, std::int64_t first, std::int64_t count) const;

  void check_view() const;

  std::string path_;
  std::shared_ptr<const Known> known_;
  std::string view_problem_;
  std::optional<io::BulkFile> file_;
  int open_rank_ = -1;
  std::vector<char> staging_;
  int staged_rank_ = -1;
  Kind staged_kind_ = Kind::model;
  std::int64_t staged_block_ = -1;
  bool leaves_cache_ = true;
  std::int64_t bytes_read_ = 0;
};

// The text of the manifest, not parsed. InputError, as from Reader, if this is no checkpoint.
std::string manifest_text(const std::string& path);

// The run state from the manifest, without the indices of the ranks; for callers that need no tensor. Throws as Reader
// does.
RunState read_state(const std::string& path);

}  // namespace trainyard::checkpoint
