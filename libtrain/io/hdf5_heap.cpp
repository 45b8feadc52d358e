// Goes through a collection of the global heap.
#include "libtrain/io/hdf5_heap.h"

#include <cstring>

namespace trainyard::io::hdf5 {

namespace {

std::uint64_t number(std::span<const char> bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, width);  // little-endian
  return value;
}

// Calls see(index, object) for each object until it returns false. Returns false when an object does not end inside the
// collection. Index 0 is the free space, whose size includes its own header.
template <class See> bool walk(std::span<const char> collection, See see) {
  constexpr std::size_t header = 16;
  for (std::size_t at = collection_header; at + header <= collection.size();) {
    const auto index = number(collection, at, 2), size = number(collection, at + 8, 8), left = collection.size() - at;
    if (index == 0 ? size < header || size > left : size > left - header || (size + 7) / 8 * 8 > left - header)
      return false;
    if (index != 0 && !see(index, std::string_view(collection.data() + at + header, size))) return true;
    at += index == 0 ? size : header + (size + 7) / 8 * 8;
  }
  return true;
}

}  // namespace

bool is_collection(std::span<const char> bytes) {
  return bytes.size() >= collection_header && std::memcmp(bytes.data(), "GCOL\1\0\0\0", 8) == 0;
}

std::uint64_t collection_bytes(std::span<const char> header) { return number(header, 8, 8); }

bool is_sound(std::span<const char> collection) {
  return is_collection(collection) && collection_bytes(collection) == collection.size() &&
         walk(collection, [](std::uint64_t, std::string_view) { return true; });
}

std::optional<std::string_view> object_of(std::span<const char> collection, std::uint64_t wanted) {
  std::optional<std::string_view> found;
  walk(collection, [&](std::uint64_t index, std::string_view object) {
    if (index == wanted) found = object;
    return !found;
  });
  return found;
}

}  // namespace trainyard::io::hdf5
