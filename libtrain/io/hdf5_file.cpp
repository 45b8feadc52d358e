// Files, groups and datasets of the HDF5 wrapper.
#include "libtrain/io/hdf5_file.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/system_error.h"
#include "libtrain/io/hdf5_detail.h"
#include "libtrain/io/hdf5_heap.h"

#include <hdf5.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <utility>

namespace trainyard::io {

using namespace hdf5;

std::int64_t DatasetInfo::count() const {
  std::int64_t n = 1;
  for (auto d : shape)
    if (d < 0 || __builtin_mul_overflow(n, d, &n)) return std::numeric_limits<std::int64_t>::max();
  return n;
}

Hdf5File Hdf5File::create(const std::string& path) {
  be_quiet();
  if (!base::Descriptor(base::open_new(path, O_WRONLY)).is_open()) base::throw_cannot_write("create", path, errno);
  const auto access = property_list(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_alignment(access.get(), 4096, 4096);
  H5Pset_file_locking(access.get(), 0, 1);  // the folder is locked already, and some file systems have no locks
  H5Pset_driver(access.get(), careful_driver(path), nullptr);
  const auto creation = property_list(H5P_FILE_CREATE);
  H5Pset_obj_track_times(creation.get(), false);  // equal content gives equal bytes
  errno = 0;
  const auto id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get());
  if (id < 0) {
    push_errno(errno, "create");  // the library queries the path itself, and does not report the error number
    fail(true, path, "create the HDF5 file");
  }
  return Hdf5File(path, id, true);
}

Hdf5File Hdf5File::open(const std::string& path) {
  be_quiet();
  examine(path);
  const auto access = property_list(H5P_FILE_ACCESS);
  H5Pset_file_locking(access.get(), 0, 1);  // files that are read are complete, and some file systems have no locks
  H5Pset_driver(access.get(), careful_driver(path), nullptr);
  const auto id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
  if (id < 0) fail(false, path, "open as an HDF5 file");
  return Hdf5File(path, id, false);
}

Hdf5File::Hdf5File(Hdf5File&& other) noexcept
    : path_(std::move(other.path_)), id_(std::exchange(other.id_, -1)), writing_(other.writing_) {}

Hdf5File& Hdf5File::operator=(Hdf5File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(id_, other.id_);
  std::swap(writing_, other.writing_);
  return *this;
}

Hdf5File::~Hdf5File() {
  if (id_ < 0) return;
  be_quiet();
  H5Fclose(id_);
}

void Hdf5File::close() {
  if (id_ < 0) return;
  be_quiet();
  if (H5Fclose(std::exchange(id_, -1)) < 0) fail(writing_, path_, "close the HDF5 file");
}

// The library would create groups on the way by itself, but would write the time of day into them.
void Hdf5File::make_group(const std::string& name) {
  be_quiet();
  if (exists(name)) return;
  make_group(group_of(name));
  const auto creation = property_list(H5P_GROUP_CREATE);
  H5Pset_obj_track_times(creation.get(), false);
  const auto group = group_id(H5Gcreate2(id_, name.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT));
  if (!group) fail(writing_, path_, "create the group " + name);
}

bool Hdf5File::exists(const std::string& name) const {
  be_quiet();
  if (name == "/" || name.empty()) return true;
  // The library requires that every link on the way exists before it is asked for the last one.
  for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    if (!is_yes(H5Lexists(id_, name.substr(0, end).c_str(), own_links()), path_, "look for " + name)) return false;
    if (end == std::string::npos) return true;
  }
}

std::vector<std::string> Hdf5File::children(const std::string& group) const {
  be_quiet();
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  if (H5Literate_by_name(id_, group.c_str(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, visit, &names, own_links()) < 0)
    fail(writing_, path_, "list the group " + group);
  std::sort(names.begin(), names.end());
  return names;
}

std::int64_t Hdf5File::create_dataset(const std::string& name, base::DType dtype,
                                      const std::vector<std::int64_t>& shape) {
  be_quiet();
  const auto type = type_of(dtype);
  const auto space = space_of(shape);
  const auto create = property_list(H5P_DATASET_CREATE);
  H5Pset_layout(create.get(), H5D_CONTIGUOUS);
  H5Pset_obj_track_times(create.get(), false);  // equal content gives equal bytes
  H5Pset_alloc_time(create.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(create.get(), H5D_FILL_TIME_NEVER);
  make_group(group_of(name));
  const auto dataset =
      dataset_id(H5Dcreate2(id_, name.c_str(), type.get(), space.get(), H5P_DEFAULT, create.get(), H5P_DEFAULT));
  if (!dataset) fail(writing_, path_, "create the dataset " + name);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return -1;
  const auto offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF) fail(writing_, path_, "allocate the dataset " + name);
  return static_cast<std::int64_t>(offset);
}

void Hdf5File::write_dataset(const std::string& name, base::DType dtype, const std::vector<std::int64_t>& shape,
                             const void* data) {
  create_dataset(name, dtype, shape);
  const auto dataset = dataset_id(H5Dopen2(id_, name.c_str(), own_links()));
  const auto type = type_of(dtype);
  if (H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
    fail(writing_, path_, "write the dataset " + name);
}

DatasetInfo Hdf5File::info(const std::string& name) const {
  be_quiet();
  if (H5L_info_t link{}; H5Lget_info(id_, name.c_str(), &link, own_links()) >= 0 && link.type == H5L_TYPE_EXTERNAL)
    throw base::InputError(fmt::format("{}{} is a link into another file", path_, name),
                           "put the elements into the file itself");
  const auto dataset = dataset_id(H5Dopen2(id_, name.c_str(), own_links()));
  if (!dataset) fail(writing_, path_, "open the dataset " + name);
  const auto type = type_id(H5Dget_type(dataset.get()));
  const auto space = space_id(H5Dget_space(dataset.get()));
  const auto create = Id(H5Dget_create_plist(dataset.get()), [](std::int64_t id) { return H5Pclose(id); });
  if (H5Pget_external_count(create.get()) > 0)
    throw base::InputError(fmt::format("{}{} lies in another file", path_, name),
                           "put the elements into the file itself");
  DatasetInfo info;
  info.dtype = dtype_of(type.get(), path_ + name);
  std::vector<hsize_t> dims(base::size(std::max(0, H5Sget_simple_extent_ndims(space.get()))));
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  info.shape.assign(dims.begin(), dims.end());
  const auto layout = H5Pget_layout(create.get());
  // The library would copy elements from behind what a damaged header stores.
  if (layout == H5D_COMPACT && H5Dget_storage_size(dataset.get()) / static_cast<hsize_t>(base::size_of(info.dtype)) <
                                   static_cast<hsize_t>(info.count()))
    throw base::InputError(fmt::format("{}{} stores fewer elements than it says it has", path_, name),
                           "the file is damaged: restore it, or use another copy");
  info.is_virtual = layout == H5D_VIRTUAL;
  const auto offset = layout == H5D_CONTIGUOUS ? H5Dget_offset(dataset.get()) : HADDR_UNDEF;
  if (offset == HADDR_UNDEF) return info;
  hsize_t bytes = 0;
  if (H5Fget_filesize(id_, &bytes) < 0) fail(writing_, path_, "read the size of the file");
  if (offset > bytes ||
      (bytes - offset) / static_cast<hsize_t>(base::size_of(info.dtype)) < static_cast<hsize_t>(info.count()))
    throw base::InputError(fmt::format("{}{} leads beyond the end of the file", path_, name),
                           "the file is damaged: restore it, or use another copy");
  info.offset = static_cast<std::int64_t>(offset);
  return info;
}

void Hdf5File::read_dataset(const std::string& name, base::DType dtype, std::int64_t first, std::int64_t count,
                            void* out) const {
  const auto about = info(name);
  if (about.dtype != dtype)
    throw base::InputError(
        fmt::format("{}{} holds {}, expected {}", path_, name, base::name_of(about.dtype), base::name_of(dtype)));
  if (first < 0 || count < 0 || first + count > about.count() ||
      (about.shape.size() != 1 && (first != 0 || count != about.count())))
    throw base::InputError(
        fmt::format("{}{} has {} elements, asked for {} from {}", path_, name, about.count(), count, first));
  if (count == 0) return;
  const auto dataset = dataset_id(H5Dopen2(id_, name.c_str(), own_links()));
  const auto type = type_of(dtype);
  const auto space = space_id(H5Dget_space(dataset.get()));
  if (about.shape.size() == 1) {
    const hsize_t start = static_cast<hsize_t>(first), extent = static_cast<hsize_t>(count);
    H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &extent, nullptr);
  }
  const auto memory = space_of({count});
  if (H5Dread(dataset.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, out) < 0)
    fail(writing_, path_, "read the dataset " + name);
}

std::string hdf5_version() {
  be_quiet();  // must come before the library initializes itself
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace trainyard::io
