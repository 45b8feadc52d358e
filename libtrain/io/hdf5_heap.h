// Bounds checks for the parts of an HDF5 file that have no checksums of their own. Without them the library could
// follow these parts for ever, or read outside of its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trainyard::io::hdf5 {

// Whether these bytes begin a collection of the global heap. Collections hold texts of variable length and the maps of
// virtual datasets.
inline constexpr std::size_t collection_header = 16;
bool is_collection(std::span<const char> bytes);
// The length that a collection states in its first 16 bytes.
std::uint64_t collection_bytes(std::span<const char> header);
// Whether going from object to object reaches the collection's end.
bool is_sound(std::span<const char> collection);
// One object of a sound collection; nothing when no object has this index.
std::optional<std::string_view> object_of(std::span<const char> collection, std::uint64_t index);

// Throws InputError for a file that is not regular, has no superblock, or whose addresses have not 64 bits. h5py writes
// superblocks of version 0 and 1, whose root group has no checksums. There it also checks that the root group's header,
// tree, names and entries do not lead out of the file or in circles. The library checks what this function cannot see.
void examine(const std::string& path);

}  // namespace trainyard::io::hdf5
