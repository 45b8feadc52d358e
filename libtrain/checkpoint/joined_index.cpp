// Joins the indices of the ranks, and reads them back from the joined file.
#include "libtrain/checkpoint/joined_index.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/checkpoint/rank_index.h"
#include "libtrain/checkpoint/records.h"
#include "libtrain/checkpoint/refuse.h"

namespace trainyard::checkpoint {

namespace {

constexpr std::string_view joined_format = "trainyard.checkpoint.indices/1";
constexpr std::size_t header_bytes = text_bytes + 8 + 4, entry_bytes = 8 + 8 + 4;

std::uint32_t crc_of(std::string_view bytes) { return base::crc32c(bytes.data(), bytes.size()); }

std::string read_whole(const std::string& path, const FileEntry& entry) {
  const auto size = base::file_size(path);
  if (size < 0) throw base::InputError(fmt::format("{} is missing", path), way_to_whole());
  if (size != entry.bytes)
    throw base::InputError(fmt::format("{} has {} bytes, expected {}", path, size, entry.bytes), way_to_whole());
  auto bytes = base::read_file(path);
  if (const auto found = crc_of(bytes); found != entry.crc)
    throw base::InputError(
        fmt::format("{} is damaged: its checksum is {}, expected {}", path, hex32(found), hex32(entry.crc)),
        way_to_whole());
  return bytes;
}

RankIndex read_section(std::string_view bytes, const Manifest& m, int rank, const std::string& where) {
  auto index = index_from_bytes(bytes, m.parameters, where);
  if (index.step != m.state.step || index.rank != rank || index.ranks != m.ranks)
    throw base::InputError(fmt::format("{} is of step {}, rank {} of {}; expected step {}, rank {} of {}", where,
                                       index.step, index.rank, index.ranks, m.state.step, rank, m.ranks),
                           way_to_whole());
  const auto& file = m.files.at(rank_name(rank) + ".h5");
  index.file.bytes = file.bytes;
  index.file.crc = file.crc;
  require_whole(index.file, where);
  return index;
}

}  // namespace

std::string joined_index_bytes(std::int64_t step, const std::vector<std::string>& sections) {
  RecordWriter out;
  out.text(joined_format);
  out.number<std::uint64_t>(static_cast<std::uint64_t>(step));
  out.number<std::uint32_t>(static_cast<std::uint32_t>(sections.size()));
  auto at = header_bytes + entry_bytes * sections.size();
  for (const auto& section : sections) {
    out.number<std::uint64_t>(at);
    out.number<std::uint64_t>(section.size());
    out.number<std::uint32_t>(crc_of(section));
    at += section.size();
  }
  auto bytes = out.take();
  bytes.reserve(at);
  for (const auto& section : sections) bytes += section;
  return bytes;
}

std::vector<std::string_view> sections_of(std::string_view bytes, std::int64_t step, int ranks,
                                          const std::string& where) {
  RecordReader in(bytes, where);
  if (const auto format = in.text(); format != joined_format)
    in.refuse("format is {}, expected {}", base::excerpt(format), joined_format);
  const auto of_step = in.count64();
  const auto of_ranks = in.number<std::uint32_t>();
  if (of_step != step || of_ranks != static_cast<std::uint32_t>(ranks))
    in.refuse("it is of step {} and {} ranks; expected step {} and {} ranks", of_step, of_ranks, step, ranks);
  std::vector<std::string_view> sections;
  sections.reserve(in.records(of_ranks, entry_bytes));
  auto at = header_bytes + entry_bytes * of_ranks;  // `records` has checked that the table ends inside the bytes
  for (int r = 0; r < ranks; ++r) {
    const auto offset = base::size(in.count64()), size = base::size(in.count64());
    const auto crc = in.number<std::uint32_t>();
    if (offset != at) in.refuse("the section of rank {} begins at byte {}, expected {}", r, offset, at);
    if (size > bytes.size() - at)
      in.refuse("the section of rank {} has {} bytes, but {} are left", r, size, bytes.size() - at);
    sections.push_back(bytes.substr(at, size));
    if (const auto found = crc_of(sections.back()); found != crc)
      in.refuse("the section of rank {} has checksum {}, expected {}", r, hex32(found), hex32(crc));
    at += size;
  }
  if (at != bytes.size()) in.refuse("{} bytes follow the last section", bytes.size() - at);
  return sections;
}

FileEntry join_indices(const std::string& folder, std::int64_t step, const std::vector<FileEntry>& indices) {
  std::vector<std::string> sections;
  for (const auto& entry : indices)
    sections.push_back(read_whole(folder + "/" + index_name(static_cast<int>(sections.size())), entry));
  const auto bytes = joined_index_bytes(step, sections);
  base::write_file(folder + "/" + joined_index_name, bytes);
  return {static_cast<std::int64_t>(bytes.size()), crc_of(bytes), {}, {}};
}

void read_indices(Manifest& m, const std::string& folder) {
  if (m.major == 1) return;
  const auto path = folder + "/" + joined_index_name;
  const auto bytes = read_whole(path, m.files.at(joined_index_name));
  const auto sections = sections_of(bytes, m.state.step, m.ranks, path);
  m.boxes.clear();
  for (int r = 0; r < m.ranks; ++r) {
    auto index = read_section(base::at(sections, r), m, r, fmt::format("{}: rank {}", path, r));
    m.boxes.push_back(std::move(index.boxes));
    m.files.at(rank_name(r) + ".h5") = std::move(index.file);
  }
  require_boxes(m, path);
}

}  // namespace trainyard::checkpoint
