// Writing and reading the index of a rank file.
#include "libtrain/checkpoint/rank_index.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/io/bulk.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace trainyard::checkpoint {

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::string_view index_format = "trainyard.checkpoint.index/1";
constexpr std::size_t text_bytes = 32;
constexpr const char* way_out = "restore it from a copy, or resume from another checkpoint (--resume PATH)";

class Writer {
 public:
  void text(std::string_view value) {
    TRAINYARD_ASSERT(value.size() <= text_bytes, "{} is too long", value);
    bytes_.append(value).append(text_bytes - value.size(), '\0');
  }
  template <class T>
  void number(std::type_identity_t<T> value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  // Seven bits a byte, the lowest first; the highest bit says that more follow.
  void varint(std::int64_t number) {
    auto value = static_cast<std::uint64_t>(number);
    for (; value >= 128; value >>= 7) bytes_.push_back(static_cast<char>((value & 127) | 128));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Bytes {
 public:
  Bytes(std::string_view bytes, const std::string& where) : left_(bytes), where_(where) {}

  std::string text() {
    const auto all = take(text_bytes);
    const auto end = std::min(all.find('\0'), all.size());
    if (all.find_first_not_of('\0', end) != std::string_view::npos) refuse("a text has bytes after its end");
    return std::string(all.substr(0, end));
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::int64_t count64() {
    const auto value = number<std::uint64_t>();
    if (value > static_cast<std::uint64_t>(largest_count)) refuse("{} is too large", value);
    return static_cast<std::int64_t>(value);
  }
  std::int64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte >= 128) continue;
      if (value > static_cast<std::uint64_t>(largest_count) || (byte == 0 && shift > 0))
        break;   // too large, or not the shortest form
      return static_cast<std::int64_t>(value);
    }
    refuse("a number of a box is too large, or not in its shortest form");
  }
  // That many records of at least that many bytes are still to come.
  std::size_t records(std::uint64_t count, std::size_t least_bytes) const {
    if (count > left_.size() / least_bytes)
      refuse("{} records of {} bytes or more, but {} bytes are left", count, least_bytes, left_.size());
    return count;
  }
  bool done() const { return left_.empty(); }
  std::size_t left() const { return left_.size(); }

  template <class... A>
  [[noreturn]] void refuse(fmt::format_string<A...> format, A&&... values) const {
    throw base::InputError(where_ + ": " + fmt::format(format, std::forward<A>(values)...), way_out);
  }

 private:
  std::string_view take(std::size_t n) {
    if (n > left_.size()) refuse("it ends in the middle of a record");
    const auto taken = left_.substr(0, n);
    left_.remove_prefix(n);
    return taken;
  }
  std::string_view left_;
  const std::string& where_;
};

void write_boxes(Writer& out, const RankIndex& index, const std::vector<ParameterEntry>& parameters) {
  std::int64_t end = 0;
  for (const auto& stored : index.boxes) {
    out.varint(stored.tensor);
    out.varint(stored.offset - end);
    for (std::size_t d = 0; d < parameters[static_cast<std::size_t>(stored.tensor)].shape.size(); ++d) {
      out.varint(stored.box.start[d]);
      out.varint(stored.box.count[d]);
    }
    end = stored.end();
  }
}

StoredBox read_box(Bytes& in, std::int64_t end, const std::vector<ParameterEntry>& parameters) {
  const auto tensor = in.varint(), gap = in.varint();
  if (tensor >= static_cast<std::int64_t>(parameters.size()))
    in.refuse("a box of tensor {}, there are {}", tensor, parameters.size());
  if (gap > largest_count - end) in.refuse("a box begins beyond what is possible");
  StoredBox stored{static_cast<std::int32_t>(tensor), end + gap, {}};
  const auto& p = parameters[static_cast<std::size_t>(tensor)];
  for (std::size_t d = 0; d < p.shape.size(); ++d) {
    const auto start = stored.box.start[d] = in.varint(), count = stored.box.count[d] = in.varint();
    if (count < 1 || start > p.shape[d] || count > p.shape[d] - start)
      in.refuse("a box from {} on of {} in dim {} of {}, which has {}", start, count, d, p.name, p.shape[d]);
  }
  return stored;
}

FileEntry read_parts(Bytes& in, std::uint32_t datasets, std::uint32_t ranges) {
  FileEntry file;
  std::vector<PayloadEntry*> payloads;
  for (std::size_t i = 0, n = in.records(datasets, text_bytes + 16); i < n; ++i) {
    const auto path = in.text();
    const auto offset = in.count64(), bytes = in.count64();
    const auto [at, is_new] = file.payloads.insert({path, {offset, bytes, {}}});
    if (!is_new) in.refuse("{} is there twice", base::excerpt(path));
    payloads.push_back(&at->second);
  }
  for (std::size_t i = 0, n = in.records(ranges, 20); i < n; ++i) {
    const auto offset = in.count64(), bytes = in.count64();
    file.metadata.push_back({offset, bytes, in.number<std::uint32_t>()});
  }
  for (auto* payload : payloads) {
    const auto n = in.records(static_cast<std::uint64_t>(io::blocks_of(payload->bytes)), 4);
    payload->blocks.reserve(n);
    for (std::size_t i = 0; i < n; ++i) payload->blocks.push_back(in.number<std::uint32_t>());
  }
  return file;
}

RankIndex read_index(const std::string& folder, const Manifest& m, int rank) {
  const auto name = index_name(rank), path = folder + "/" + name;
  const auto& entry = m.files.at(name);
  const auto size = base::file_size(path);
  if (size < 0) throw base::InputError(fmt::format("{} is missing", path), way_out);
  if (size != entry.bytes)
    throw base::InputError(fmt::format("{} has {} bytes, expected {}", path, size, entry.bytes), way_out);
  const auto bytes = base::read_file(path);
  if (const auto found = base::crc32c(bytes.data(), bytes.size()); found != entry.crc)
    throw base::InputError(
        fmt::format("{} is damaged: its checksum is {}, expected {}", path, hex32(found), hex32(entry.crc)), way_out);
  auto index = index_from_bytes(bytes, m.parameters, path);
  if (index.step != m.state.step || index.rank != rank || index.ranks != m.ranks)
    throw base::InputError(fmt::format("{} is of step {}, rank {} of {}; expected step {}, rank {} of {}", path,
                                       index.step, index.rank, index.ranks, m.state.step, rank, m.ranks),
                           way_out);
  const auto& file = m.files.at(rank_name(rank) + ".h5");
  index.file.bytes = file.bytes;
  index.file.crc = file.crc;
  require_whole(index.file, path);
  return index;
}

}  // namespace

std::string index_name(int rank) { return rank_name(rank) + ".index"; }

std::string index_bytes(const RankIndex& index, const std::vector<ParameterEntry>& parameters) {
  Writer out;
  out.text(index_format);
  out.number<std::uint64_t>(static_cast<std::uint64_t>(index.step));
  out.number<std::uint32_t>(static_cast<std::uint32_t>(index.rank));
  out.number<std::uint32_t>(static_cast<std::uint32_t>(index.ranks));
  out.number<std::uint32_t>(static_cast<std::uint32_t>(index.file.payloads.size()));
  out.number<std::uint32_t>(static_cast<std::uint32_t>(index.file.metadata.size()));
  out.number<std::uint64_t>(index.boxes.size());
  for (const auto& [path, p] : index.file.payloads) {
    out.text(path);
    out.number<std::uint64_t>(static_cast<std::uint64_t>(p.offset));
    out.number<std::uint64_t>(static_cast<std::uint64_t>(p.bytes));
  }
  for (const auto& r : index.file.metadata) {
    out.number<std::uint64_t>(static_cast<std::uint64_t>(r.offset));
    out.number<std::uint64_t>(static_cast<std::uint64_t>(r.bytes));
    out.number<std::uint32_t>(r.crc);
  }
  for (const auto& [path, p] : index.file.payloads)
    for (auto crc : p.blocks) out.number<std::uint32_t>(crc);
  write_boxes(out, index, parameters);
  return out.take();
}

RankIndex index_from_bytes(const std::string& bytes, const std::vector<ParameterEntry>& parameters,
                           const std::string& where) {
  Bytes in(bytes, where);
  if (const auto format = in.text(); format != index_format)
    in.refuse("format is {}, expected {}", base::excerpt(format), index_format);
  RankIndex index;
  index.step = in.count64();
  const auto rank = in.number<std::uint32_t>(), ranks = in.number<std::uint32_t>();
  if (rank >= ranks || ranks > largest_ranks) in.refuse("rank {} of {}", rank, ranks);
  index.rank = static_cast<int>(rank);
  index.ranks = static_cast<int>(ranks);
  const auto datasets = in.number<std::uint32_t>(), ranges = in.number<std::uint32_t>();
  const auto boxes = in.number<std::uint64_t>();
  index.file = read_parts(in, datasets, ranges);
  in.records(boxes, 4);   // a box of one dim has 4 bytes or more
  std::int64_t end = 0;
  for (std::uint64_t i = 0; i < boxes; ++i) {
    index.boxes.push_back(read_box(in, end, parameters));
    end = index.boxes.back().end();
    if (end > largest_count) in.refuse("a box ends beyond what is possible");
  }
  if (!in.done()) in.refuse("{} bytes follow the last box", in.left());
  return index;
}

void read_indices(Manifest& m, const std::string& folder) {
  if (m.major == 1) return;
  m.boxes.clear();
  for (int r = 0; r < m.ranks; ++r) {
    auto index = read_index(folder, m, r);
    m.boxes.push_back(std::move(index.boxes));
    m.files.at(rank_name(r) + ".h5") = std::move(index.file);
  }
  require_boxes(m, folder);
}

}  // namespace trainyard::checkpoint
