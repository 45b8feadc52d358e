// Text of variable length, read from the file's heap without the library.
#include "libtrain/base/error.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_detail.h"
#include "libtrain/io/hdf5_heap.h"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <vector>

namespace trainyard::io::hdf5 {

namespace {

// How an attribute refers to its text: the address of a collection and the index of an object in it.
struct [[gnu::packed]] Reference {
  std::uint32_t length;
  std::uint64_t address;
  std::uint32_t index;
};
static_assert(sizeof(Reference) == 16);

// A conversion to opaque bytes that leaves the stored reference as it is. The library's own conversion would follow the
// reference.
herr_t keep(hid_t, hid_t, H5T_cdata_t* data, std::size_t, std::size_t, std::size_t, void*, void*, hid_t) {
  if (data->command == H5T_CONV_INIT) data->need_bkg = H5T_BKG_NO;
  return 0;
}

bool register_conversion() {
  const auto from = type_id(H5Tcopy(H5T_C_S1)), to = type_id(H5Tcreate(H5T_OPAQUE, sizeof(Reference)));
  H5Tset_size(from.get(), H5T_VARIABLE);
  return H5Tregister(H5T_PERS_SOFT, "stored reference", from.get(), to.get(), keep) >= 0;
}

}  // namespace

std::string variable_text(std::int64_t file, std::int64_t attribute, const std::string& path, const std::string& what) {
  [[maybe_unused]] static const bool once = register_conversion();
  const auto type = type_id(H5Tcreate(H5T_OPAQUE, sizeof(Reference)));
  const auto creation = Id(H5Fget_create_plist(file), [](std::int64_t id) { return H5Pclose(id); });
  hsize_t begin = 0;  // where addresses begin
  Reference reference{};
  if (H5Pget_userblock(creation.get(), &begin) < 0 || H5Aread(attribute, type.get(), &reference) < 0)
    fail(false, path, "read the " + what);
  if (reference.length == 0) return "";
  const BulkFile bytes(path, BulkFile::Mode::read);
  const auto size = static_cast<std::uint64_t>(bytes.size());
  const std::uint64_t address = reference.address;  // a copy, because the packed member is not aligned
  const std::uint64_t place = begin + std::min(address, size);
  std::array<char, collection_header> header{};
  if (place < size && size - place >= header.size())
    bytes.read(static_cast<std::int64_t>(place), header.data(), header.size());
  const auto refuse = [&] {
    return base::InputError(fmt::format("{}: the {} lies in a damaged heap", path, what),
                            "the file is damaged: restore it from a copy");
  };
  if (!is_collection(header) || collection_bytes(header) > size - place) throw refuse();
  std::vector<char> collection(collection_bytes(header));
  bytes.read(static_cast<std::int64_t>(place), collection.data(), static_cast<std::int64_t>(collection.size()));
  const auto object = is_sound(collection) ? object_of(collection, reference.index) : std::nullopt;
  if (!object || object->size() < reference.length) throw refuse();
  const auto text = object->substr(0, reference.length);
  return std::string(text.substr(0, text.find('\0')));
}

}  // namespace trainyard::io::hdf5
