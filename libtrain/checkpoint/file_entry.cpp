// The parts of a file in their order.
#include "libtrain/checkpoint/file_entry.h"

#include "libtrain/checkpoint/refuse.h"
#include "libtrain/io/bulk.h"

#include <algorithm>

namespace trainyard::checkpoint {

namespace {

struct FilePart {
  std::int64_t offset, bytes;
  const PayloadEntry* payload;  // nullptr: metadata
  std::uint32_t crc;
};

std::vector<FilePart> file_parts(const FileEntry& file) {
  std::vector<FilePart> parts;
  for (const auto& [name, p] : file.payloads) parts.push_back({p.offset, p.bytes, &p, 0});
  for (const auto& r : file.metadata) parts.push_back({r.offset, r.bytes, nullptr, r.crc});
  std::sort(parts.begin(), parts.end(), [](const FilePart& a, const FilePart& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  return parts;
}

}  // namespace

void require_whole(const FileEntry& file, const std::string& where) {
  std::int64_t at = 0;
  for (const auto& part : file_parts(file)) {
    if (part.offset != at) refuse(where, "what should begin at byte {} begins at {}", at, part.offset);
    at += part.bytes;
    if (at > file.bytes) break;
  }
  if (!file.payloads.empty() && at != file.bytes)
    refuse(where, "datasets and metadata end at byte {}, the file at {}", at, file.bytes);
}

std::uint32_t crc_of_parts(const FileEntry& file) {
  std::uint32_t crc = 0;
  for (const auto& part : file_parts(file)) {
    if (part.payload == nullptr) crc = io::crc32c_combine(crc, part.crc, part.bytes);
    else
      for (std::size_t b = 0; b < part.payload->blocks.size(); ++b)
        crc =
            io::crc32c_combine(crc, part.payload->blocks[b],
                               std::min(io::block_bytes, part.bytes - static_cast<std::int64_t>(b) * io::block_bytes));
  }
  return crc;
}

std::string hex32(std::uint32_t value) { return fmt::format("{:08x}", value); }
std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace trainyard::checkpoint
