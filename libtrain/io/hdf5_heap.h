// The parts of an HDF5 file that have no checksums of their own, held against their bounds before the library follows
// them: it can lose itself in them for ever, or read out of its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trainyard::io::hdf5 {

// A collection of the global heap, where texts of variable length and the maps of virtual datasets lie.
inline constexpr std::size_t collection_header = 16;
bool is_collection(std::span<const char> bytes);
// How long it says it is, from its first 16 bytes.
std::uint64_t collection_bytes(std::span<const char> header);
// Whether going from object to object arrives at its end.
bool is_sound(std::span<const char> collection);
// One object of a sound collection; nothing when there is none of this index.
std::optional<std::string_view> object_of(std::span<const char> collection, std::uint64_t index);

// InputError for a file that is not a regular one, has no superblock or one with other than 64-bit addresses, or, where
// the superblock is one of those (0 and 1) whose root group has no checksums (what h5py writes), a root group whose
// header, tree, names or entries lead out of the file or in circles. What it cannot see is left to the library.
void examine(const std::string& path);

}  // namespace trainyard::io::hdf5
