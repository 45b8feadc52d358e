// An HDF5 file: groups, attributes, contiguous datasets with their place in the file, and virtual datasets. The
// library's header stays inside.
#pragma once

#include "libtrain/base/dtype.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::io {

// A box of an n-dimensional tensor: start and extent in every dim.
struct Box {
  std::vector<std::int64_t> start, extent;
  bool operator==(const Box&) const = default;
};
// Elements of the one-dimensional `source_dataset` (which has source_size elements), from source_first on, are those of
// a box of a tensor, row-major. source_file is relative to the folder of the mapping file.
struct VirtualPart {
  std::string source_file, source_dataset;
  std::int64_t source_first = 0, source_size = 0;
  Box box;
};
// The flat range [first, first + count) of a tensor of the given shape as consecutive boxes, in row-major order; at
// most 2r - 1 of them.
std::vector<Box> boxes_of(const std::vector<std::int64_t>& shape, std::int64_t first, std::int64_t count);

struct DatasetInfo {
  std::vector<std::int64_t> shape;
  base::DType dtype = base::DType::f32;
  std::int64_t offset = -1;  // byte of the file where the data starts; -1 when it is not contiguous or not allocated
  bool is_virtual = false;
  std::int64_t count() const;  // the largest number there is for a shape beyond it
};

// Names are paths from the root ("/model/x"); groups in between are created. An object path of "/" means the root.
// What fails in a file that was created is an EnvironmentError, in a file that was opened an InputError; both name
// file, object and the library's innermost reason. Where there are checksums, verify them first: the library believes
// what it reads. What it could be crashed or kept for ever by is refused when a file is opened or used (hdf5_heap.h),
// and so is what lies in other files. Files are created with version bounds V110. Calls from several threads are
// serialised by the library.
class Hdf5File {
 public:
  static Hdf5File create(const std::string& path);  // a new file, in place of one, of a link or of a pipe
  static Hdf5File open(const std::string& path);    // read-only
  Hdf5File(Hdf5File&& other) noexcept;
  Hdf5File& operator=(Hdf5File&& other) noexcept;
  ~Hdf5File();  // closes; call close() to learn of errors
  void close();
  const std::string& path() const { return path_; }

  void make_group(const std::string& name);
  bool exists(const std::string& name) const;
  std::vector<std::string> children(const std::string& group) const;  // names without the path, in byte order

  // Attributes of the root, a group or a dataset. UTF-8 strings of variable length, 64-bit integers (signed), f64.
  // Writing replaces.
  void set_text(const std::string& object, const std::string& name, const std::string& value);
  void set_integer(const std::string& object, const std::string& name, std::int64_t value);
  void set_real(const std::string& object, const std::string& name, double value);
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::string text(const std::string& object, const std::string& name) const;      // fixed or variable length
  std::int64_t integer(const std::string& object, const std::string& name) const;  // any integer type; exact
  double real(const std::string& object, const std::string& name) const;

  // A contiguous dataset whose space is allocated now and filled by nobody; returns the byte of the file where it
  // starts (a multiple of 4096 for data of 4096 bytes and more). Close this file before writing there by other means.
  // Elements are little-endian; bf16 is a 16-bit IEEE-like float that h5dump and h5py show as numbers. No elements: no
  // place, returns -1.
  std::int64_t create_dataset(const std::string& name, base::DType dtype, const std::vector<std::int64_t>& shape);
  // Creates a dataset and writes all of it through the library: for small things.
  void write_dataset(const std::string& name, base::DType dtype, const std::vector<std::int64_t>& shape,
                     const void* data);
  DatasetInfo info(const std::string& name) const;
  // Elements [first, first + count) of a one-dimensional dataset (or the whole of any other, first 0); the stored type
  // must be `dtype`.
  void read_dataset(const std::string& name, base::DType dtype, std::int64_t first, std::int64_t count,
                    void* out) const;

  // A dataset of the given shape that shows the parts; elements of no part, and those of missing files, are NaN (0 for
  // integers).
  void create_virtual(const std::string& name, base::DType dtype, const std::vector<std::int64_t>& shape,
                      std::span<const VirtualPart> parts);

 private:
  Hdf5File(std::string path, std::int64_t id, bool writing) : path_(std::move(path)), id_(id), writing_(writing) {}
  std::string path_;
  std::int64_t id_ = -1;
  bool writing_ = false;
};

std::string hdf5_version();  // of the library in use, "1.10.8"

}  // namespace trainyard::io
