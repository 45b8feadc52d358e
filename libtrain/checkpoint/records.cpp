// Writing and reading the records of an index.
#include "libtrain/checkpoint/records.h"

#include "libtrain/base/error.h"
#include "libtrain/checkpoint/bounds.h"

#include <algorithm>

namespace trainyard::checkpoint {

void RecordWriter::text(std::string_view value) {
  TRAINYARD_ASSERT(value.size() <= text_bytes, "{} is too long", value);
  bytes_.append(value).append(text_bytes - value.size(), '\0');
}

void RecordWriter::varint(std::int64_t number) {
  auto value = static_cast<std::uint64_t>(number);
  for (; value >= 128; value >>= 7) bytes_.push_back(static_cast<char>((value & 127) | 128));
  bytes_.push_back(static_cast<char>(value));
}

std::string RecordReader::text() {
  const auto all = take(text_bytes);
  const auto end = std::min(all.find('\0'), all.size());
  if (all.find_first_not_of('\0', end) != std::string_view::npos) refuse("a text has bytes after its end");
  return std::string(all.substr(0, end));
}

std::int64_t RecordReader::count64() {
  const auto value = number<std::uint64_t>();
  if (value > static_cast<std::uint64_t>(largest_count)) refuse("{} is too large", value);
  return static_cast<std::int64_t>(value);
}

std::int64_t RecordReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 63; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1).front());
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte >= 128) continue;
    if (value > static_cast<std::uint64_t>(largest_count) || (byte == 0 && shift > 0))
      break;  // too large, or not the shortest form
    return static_cast<std::int64_t>(value);
  }
  refuse("a number of a box is too large, or not in its shortest form");
}

std::size_t RecordReader::records(std::uint64_t count, std::size_t least_bytes) const {
  if (count > left_.size() / least_bytes)
    refuse("{} records of {} bytes or more, but {} bytes are left", count, least_bytes, left_.size());
  return count;
}

std::string_view RecordReader::take(std::size_t n) {
  if (n > left_.size()) refuse("it ends in the middle of a record");
  const auto taken = left_.substr(0, n);
  left_.remove_prefix(n);
  return taken;
}

}  // namespace trainyard::checkpoint
