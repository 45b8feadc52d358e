// Attributes of the HDF5 wrapper: text, integers and reals on any object.
#include "libtrain/base/error.h"
#include "libtrain/io/hdf5_detail.h"
#include "libtrain/io/hdf5_file.h"

#include <hdf5.h>

namespace trainyard::io {

using namespace hdf5;

namespace {

std::string at(const std::string& object, const std::string& name) { return "attribute " + name + " of " + object; }

void write_attribute(std::int64_t file, const std::string& path, const std::string& object, const std::string& name,
                     std::int64_t type, const void* value) {
  be_quiet();
  const auto owner = object_id(H5Oopen(file, object.c_str(), own_links()));
  if (!owner) fail(true, path, "open " + object);
  if (H5Aexists(owner.get(), name.c_str()) > 0) H5Adelete(owner.get(), name.c_str());
  const auto space = space_id(H5Screate(H5S_SCALAR));
  const auto attribute =
      attribute_id(H5Acreate2(owner.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  if (!attribute || H5Awrite(attribute.get(), type, value) < 0) fail(true, path, "write the " + at(object, name));
}

Id open_attribute(std::int64_t file, const std::string& path, const std::string& object, const std::string& name) {
  be_quiet();
  auto attribute = attribute_id(H5Aopen_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT, own_links()));
  if (!attribute) fail(false, path, "find the " + at(object, name));
  const auto space = space_id(H5Aget_space(attribute.get()));
  if (H5Sget_simple_extent_npoints(space.get()) != 1)
    throw base::InputError(fmt::format("{}: the {} is not one value", path, at(object, name)));
  return attribute;
}

void read_number(const Id& attribute, const std::string& path, const std::string& what, H5T_class_t wanted,
                 std::int64_t memory_type, void* out) {
  const auto type = type_id(H5Aget_type(attribute.get()));
  const auto found = H5Tget_class(type.get());
  if (found != wanted && !(wanted == H5T_FLOAT && found == H5T_INTEGER))
    throw base::InputError(
        fmt::format("{}: the {} is not {}", path, what, wanted == H5T_INTEGER ? "an integer" : "a number"));
  if (H5Aread(attribute.get(), memory_type, out) < 0) fail(false, path, "read the " + what);
}

}  // namespace

void Hdf5File::set_text(const std::string& object, const std::string& name, const std::string& value) {
  const auto type = type_id(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  const char* text = value.c_str();
  write_attribute(id_, path_, object, name, type.get(), &text);
}

void Hdf5File::set_integer(const std::string& object, const std::string& name, std::int64_t value) {
  write_attribute(id_, path_, object, name, H5T_STD_I64LE, &value);
}

void Hdf5File::set_real(const std::string& object, const std::string& name, double value) {
  write_attribute(id_, path_, object, name, H5T_IEEE_F64LE, &value);
}

bool Hdf5File::has_attribute(const std::string& object, const std::string& name) const {
  be_quiet();
  return exists(object) && is_yes(H5Aexists_by_name(id_, object.c_str(), name.c_str(), own_links()), path_,
                                  "look for the " + at(object, name));
}

std::string Hdf5File::text(const std::string& object, const std::string& name) const {
  const auto attribute = open_attribute(id_, path_, object, name);
  const auto stored = type_id(H5Aget_type(attribute.get()));
  if (H5Tget_class(stored.get()) != H5T_STRING)
    throw base::InputError(fmt::format("{}: the {} is not text", path_, at(object, name)));
  if (H5Tis_variable_str(stored.get()) > 0) {
    if (writing_) H5Fflush(id_, H5F_SCOPE_LOCAL);  // variable_text reads the file without the library
    return variable_text(id_, attribute.get(), path_, at(object, name));
  }
  constexpr std::size_t longest = 1 << 20;
  if (H5Tget_size(stored.get()) > longest)
    throw base::InputError(fmt::format("{}: the {} has {} bytes", path_, at(object, name), H5Tget_size(stored.get())));
  std::string out(H5Tget_size(stored.get()), '\0');
  if (H5Aread(attribute.get(), stored.get(), out.data()) < 0) fail(false, path_, "read the " + at(object, name));
  while (!out.empty() && out.back() == '\0') out.pop_back();
  return out;
}

std::int64_t Hdf5File::integer(const std::string& object, const std::string& name) const {
  std::int64_t value = 0;
  read_number(open_attribute(id_, path_, object, name), path_, at(object, name), H5T_INTEGER, H5T_NATIVE_INT64, &value);
  return value;
}

double Hdf5File::real(const std::string& object, const std::string& name) const {
  double value = 0;
  read_number(open_attribute(id_, path_, object, name), path_, at(object, name), H5T_FLOAT, H5T_NATIVE_DOUBLE, &value);
  return value;
}

}  // namespace trainyard::io
