// What a manifest and an index say of a file: its size, its datasets, and the checksums of its parts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// A dataset of a rank file: where it lies in the file, and the CRC32C of each block of io::block_bytes.
struct PayloadEntry {
  std::int64_t offset = 0, bytes = 0;
  std::vector<std::uint32_t> blocks;
};
// A range of bytes between the payloads.
struct RangeEntry {
  std::int64_t offset = 0, bytes = 0;
  std::uint32_t crc = 0;
};
struct FileEntry {
  std::int64_t bytes = 0;
  std::uint32_t crc = 0;                         // of the whole file
  std::map<std::string, PayloadEntry> payloads;  // by dataset path
  std::vector<RangeEntry> metadata;
};

// Requires that the datasets and the metadata of a file cover each of its bytes exactly once. InputError that begins
// with `where`.
void require_whole(const FileEntry& file, const std::string& where);

// The checksum of the whole file, combined from the checksums of its parts.
std::uint32_t crc_of_parts(const FileEntry& file);

// A checksum and a fingerprint as text.
std::string hex32(std::uint32_t value);
std::string hex64(std::uint64_t value);

}  // namespace trainyard::checkpoint
