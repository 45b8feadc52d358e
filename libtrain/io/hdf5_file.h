// An HDF5 file: groups, attributes, contiguous datasets with their place in the file, and virtual datasets. Callers do
// not see the library's header.
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
// Maps a range of a one-dimensional source to a box of a tensor, in row-major order. The range begins at element
// source_first of `source_dataset`, which has source_size elements. source_file is relative to the folder of the
// mapping file.
struct VirtualPart {
  std::string source_file, source_dataset;
  std::int64_t source_first = 0, source_size = 0;
  Box box;
};
// Splits the flat range [first, first + count) of a tensor of r dims into consecutive boxes, in row-major order. There
// are at most 2r - 1 boxes.
std::vector<Box> boxes_of(const std::vector<std::int64_t>& shape, std::int64_t first, std::int64_t count);

struct DatasetInfo {
  std::vector<std::int64_t> shape;
  base::DType dtype = base::DType::f32;
  // The byte of the file where the data starts. -1 when the data is not contiguous or not allocated.
  std::int64_t offset = -1;
  bool is_virtual = false;
  std::int64_t count() const;  // the largest int64 where the shape has more elements
};

// Names are paths from the root ("/model/x"); missing groups on the way are created. An object path of "/" means the
// root. Errors in a file that was created are EnvironmentErrors, in a file that was opened InputErrors. Both name the
// file, the object and the library's innermost reason. Where a file has checksums, verify them first, because the
// library trusts what it reads. Content that could crash the library or keep it busy for ever is refused when a file is
// opened or used (hdf5_heap.h). Content in other files is refused too. Files are created with version bounds V110. The
// library serialises calls from several threads.
class Hdf5File {
 public:
  static Hdf5File create(const std::string& path);  // a new file; replaces a file, link or pipe of this name
  static Hdf5File open(const std::string& path);    // read-only
  Hdf5File(Hdf5File&& other) noexcept;
  Hdf5File& operator=(Hdf5File&& other) noexcept;
  ~Hdf5File();  // closes the file; call close() to see errors
  void close();
  const std::string& path() const { return path_; }

  void make_group(const std::string& name);
  bool exists(const std::string& name) const;
  std::vector<std::string> children(const std::string& group) const;  // names without the path, in byte order

  // Attributes of the root, a group or a dataset: UTF-8 strings of variable length, 64-bit signed integers, f64.
  // Writing replaces an attribute.
  void set_text(const std::string& object, const std::string& name, const std::string& value);
  void set_integer(const std::string& object, const std::string& name, std::int64_t value);
  void set_real(const std::string& object, const std::string& name, double value);
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::string text(const std::string& object, const std::string& name) const;      // fixed or variable length
  std::int64_t integer(const std::string& object, const std::string& name) const;  // any integer type; exact
  double real(const std::string& object, const std::string& name) const;

  // Creates a contiguous dataset whose space is allocated now and not filled. Returns the byte of the file where it
  // starts, which is a multiple of 4096 for data of 4096 bytes and more. A dataset without elements has no place:
  // returns -1. Close this file before writing to that place by other means. Elements are little-endian. bf16 is stored
  // as a 16-bit IEEE-like float, which h5dump and h5py show as numbers.
  std::int64_t create_dataset(const std::string& name, base::DType dtype, const std::vector<std::int64_t>& shape);
  // Creates a dataset and writes all of it through the library. It is for small data.
  void write_dataset(const std::string& name, base::DType dtype, const std::vector<std::int64_t>& shape,
                     const void* data);
  DatasetInfo info(const std::string& name) const;
  // Reads elements [first, first + count) of a one-dimensional dataset, or the whole of any other dataset (first = 0).
  // The stored type must be `dtype`.
  void read_dataset(const std::string& name, base::DType dtype, std::int64_t first, std::int64_t count,
                    void* out) const;

  // Creates a virtual dataset of the given shape that shows the parts. Elements that no part covers, or whose file is
  // missing, are NaN (0 for integers).
  void create_virtual(const std::string& name, base::DType dtype, const std::vector<std::int64_t>& shape,
                      std::span<const VirtualPart> parts);

 private:
  Hdf5File(std::string path, std::int64_t id, bool writing) : path_(std::move(path)), id_(id), writing_(writing) {}
  std::string path_;
  std::int64_t id_ = -1;
  bool writing_ = false;
};

std::string hdf5_version();  // the version of the library in use, "1.10.8"

}  // namespace trainyard::io
