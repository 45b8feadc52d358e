// Compares the attributes of a checkpoint's HDF5 files with its manifest.
#include "libtrain/checkpoint/reader.h"

#include "libtrain/base/error.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/refuse.h"
#include "libtrain/io/hdf5_file.h"

namespace trainyard::checkpoint {

namespace {

// Compares whole numbers only. They lie in object headers, which have checksums of their own. Text of variable length
// lies in a heap without checksums.
class Attributes {
 public:
  explicit Attributes(const io::Hdf5File& file) : file_(file) {}
  void require(const char* name, std::int64_t expected) const {
    if (const auto found = file_.integer("/", name); found != expected)
      throw base::InputError(
          fmt::format("{}: attribute {} is {}, the manifest says {}", file_.path(), name, found, expected),
          "the file belongs to another checkpoint: " + way_to_whole());
  }

 private:
  const io::Hdf5File& file_;
};

}  // namespace

void Reader::check_attributes(const std::string& name, const FileEntry& entry) const {
  const bool view = name == view_name;
  if (!view && entry.payloads.empty()) return;  // a file this build does not know
  const auto file = io::Hdf5File::open(path_ + "/" + name);
  const Attributes attributes(file);
  attributes.require("step", state().step);
  attributes.require("ranks", manifest().ranks);
  if (view || file.has_attribute("/", "samples_seen")) {  // rank files of older builds have none
    attributes.require("samples_seen", state().samples_seen);
    attributes.require("tokens_seen", state().tokens_seen);
  }
  if (view) return;
  const auto rank = file.integer("/", "rank");
  if (rank < 0 || rank >= manifest().ranks || rank_name(static_cast<int>(rank)) + ".h5" != name)
    throw base::InputError(fmt::format("{}: attribute rank is {}", file.path(), rank),
                           "the file was renamed, or belongs to another checkpoint: restore it from a copy");
  for (const auto& kind : kinds_of(state())) {
    const auto found = file.info(path_of(kind));
    const auto dtype = dtype_of(kind, state());
    const auto& payload = entry.payloads.at(path_of(kind));
    if (found.shape != std::vector<std::int64_t>{payload.bytes / base::size_of(dtype)} || found.dtype != dtype ||
        (payload.bytes > 0 && found.offset != payload.offset))
      throw base::InputError(
          fmt::format("{}: {} is not the dataset that the manifest describes", file.path(), path_of(kind)),
          "restore the file and the manifest from one copy");
  }
}

}  // namespace trainyard::checkpoint
