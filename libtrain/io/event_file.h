// Event files, as TensorBoard reads them: a series of records, each its length (8 bytes, little-endian), the masked
// CRC32C of these, the data, and the masked CRC32C of it. The data is a protocol buffer, an Event: wall time (field 1,
// double), step (2, varint), and either the version of the file (3, text), in the first record alone, or values (5,
// Summary: repeated field 1, each with tag (1, text) and number (2, float)); SourceMetadata (10) says who wrote it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::io {

struct TaggedValue {
  std::string tag;
  float value = 0;
};

// CRC32C rotated by 15 bits, plus a constant: checksums of data that hold checksums would be weak else.
std::uint32_t masked_crc32c(std::string_view data);

// The records as bytes: the first of a file, and one for a step. Texts have to be UTF-8.
std::string event_file_header(double wall_time, std::string_view writer);
std::string event_record(double wall_time, std::int64_t step, const std::vector<TaggedValue>& values);

}  // namespace trainyard::io
