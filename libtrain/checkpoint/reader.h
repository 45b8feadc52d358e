// Reader: any slice of any tensor of a checkpoint, whatever cut wrote it, with every byte checked before it is used.
#pragma once

#include "libtrain/checkpoint/manifest.h"
#include "libtrain/io/bulk.h"
#include "libtrain/plan/inventory.h"

#include <cstdint>
#include <functional>
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

// Reads payload past the HDF5 library: it follows the mapping itself with pread from the rank files. Memory: the
// manifest, the indices and one block of staging. Everything throws InputError (base::Unreadable where the system
// refuses to read) with the file, what was expected and found, and what to do. One thread.
class Reader {
 public:
  // all_files: checks the manifest (seal, format and major, every number and name in it), that every file but the view
  // is there with its size, the checksums of all metadata, and that the attributes of the files agree with the
  // manifest; all bytes too where parameters lie elsewhere than this build would put them. all_but_payloads: without
  // those, for who reads every byte anyway and compares the fingerprints. as_needed: the manifest and
  // the indices now, a rank file's size when its first slice is read: what a rank of a large world does that reads few
  // of them, after one rank has looked at all.
  enum class Check { all_files, all_but_payloads, as_needed };
  explicit Reader(std::string path, Check check = Check::all_files);

  // Another one of the same checkpoint, for another thread: it shares what this one knows of manifest and indices.
  Reader another() const { return Reader(path_, known_); }

  const RunState& state() const { return known_->manifest.state; }
  const Manifest& manifest() const { return known_->manifest; }
  const std::string& path() const { return path_; }
  std::int64_t bytes() const;  // of all files the manifest names
  // Why checkpoint.h5, which the manifest names, is not fit for use: missing or damaged; "" when it is, or when nobody
  // looked (as_needed). Nothing is read through it and make_view makes it anew, so a checkpoint is whole without it.
  const std::string& view_problem() const { return view_problem_; }
  std::vector<TensorInfo> tensors() const;  // by kind (kinds_of), then in the order of the manifest's parameters
  std::size_t number_of(const std::string& name) const;  // of a parameter in the manifest

  // The shard of `flat_group`, of the reading model, that rank `rank` of `topology` has (plan::layout(flat group,
  // topology).shard elements) into out as f32: bf16 is widened, padding is 0. Parameters are found by name; a name or
  // shape that the checkpoint has not is an error. Kind::master of a checkpoint without one is its model; moments of
  // one that holds the weights alone are an error. The checksum of every block is compared before any of its bytes is
  // handed out.
  void read_shard(Kind kind, const plan::FlatGroup& flat_group, const plan::Topology& topology, int rank, float* out);

  // Elements [first, first + count) of a logical tensor, flat, as f32.
  void read_tensor(Kind kind, const std::string& name, std::int64_t first, std::int64_t count, float* out);
  // Boxes of a logical tensor one after the other, the elements of each in row-major order, as f32.
  void read_boxes(Kind kind, const std::string& name, const std::vector<Box>& boxes, float* out);

  // For who reads blocks into memory of his own; several threads may. `data` is block `index` of the payload of `kind`
  // in the file of `rank`: InputError naming file, tensor and element range when its checksum is another.
  void check_block(int rank, Kind kind, std::int64_t index, const char* data) const;

  // Reads every byte; InputError naming file, tensor and element range of the first damaged blocks, or a fingerprint
  // that differs; also for a view that is there and damaged. `watch`, when given, is called now and then with the bytes
  // read so far and the bytes to be read.
  using Watch = std::function<void(std::int64_t done, std::int64_t total)>;
  void verify_all(const Watch& watch = {});

 private:
  struct Known {
    Manifest manifest;
    std::unordered_map<std::string, std::size_t> numbers;  // of parameters, by name
    std::vector<std::vector<Place>> places;                // of their boxes
  };
  Reader(std::string path, std::shared_ptr<const Known> known) : path_(std::move(path)), known_(std::move(known)) {}
  void check_file(const std::string& name, const FileEntry& entry) const;
  void check_metadata(const std::string& name, const FileEntry& entry) const;
  void check_attributes(const std::string& name, const FileEntry& entry) const;  // of HDF5: after check_metadata
  void check_files() const;
  const char* block(int rank, Kind kind, std::int64_t index);  // checked
  void read_run(int rank, Kind kind, const Run& run, float* out);
  std::string tensors_in(int rank, Kind kind, std::int64_t first, std::int64_t count) const;

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
};

// The manifest as it lies there, unread. InputError, as by Reader, for what is no checkpoint.
std::string manifest_text(const std::string& path);

// What the manifest says of the run, without the indices of its ranks: for who wants no tensor. Throws as Reader does.
RunState read_state(const std::string& path);

}  // namespace trainyard::checkpoint
