// Event files as TensorBoard reads them: a series of records. A record is its length (8 bytes, little-endian), the
// masked CRC32C of the length, the data, and the masked CRC32C of the data. The data is a protocol buffer, an Event. It
// has the wall time (field 1, double) and the step (2, varint). The first record alone has the file version (3, text);
// all later records have values (5, Summary: repeated field 1, each with tag (1, text) and number (2, float)).
// SourceMetadata (10) names the writer.
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

// CRC32C rotated by 15 bits, plus a constant. Without the mask, checksums of data that contains checksums would be
// weak.
std::uint32_t masked_crc32c(std::string_view data);

// The bytes of records: a file's first record, and the record of one step. Texts must be UTF-8.
std::string event_file_header(double wall_time, std::string_view writer);
std::string event_record(double wall_time, std::int64_t step, const std::vector<TaggedValue>& values);

}  // namespace trainyard::io
