// Writing and reading the index of a rank file.
#include "libtrain/checkpoint/rank_index.h"

#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/bounds.h"
#include "libtrain/checkpoint/records.h"
#include "libtrain/io/bulk.h"

namespace trainyard::checkpoint {

namespace {

constexpr std::string_view index_format = "trainyard.checkpoint.index/1";

void write_boxes(RecordWriter& out, const RankIndex& index, const std::vector<ParameterEntry>& parameters) {
  std::int64_t end = 0;
  for (const auto& stored : index.boxes) {
    out.varint(stored.tensor);
    out.varint(stored.offset - end);
    for (std::size_t d = 0; d < base::at(parameters, stored.tensor).shape.size(); ++d) {
      out.varint(stored.box.start[d]);
      out.varint(stored.box.count[d]);
    }
    end = stored.end();
  }
}

StoredBox read_box(RecordReader& in, std::int64_t end, const std::vector<ParameterEntry>& parameters) {
  const auto tensor = in.varint(), gap = in.varint();
  if (tensor >= static_cast<std::int64_t>(parameters.size()))
    in.refuse("a box of tensor {}, there are {}", tensor, parameters.size());
  if (gap > largest_count - end) in.refuse("a box begins beyond what is possible");
  StoredBox stored{static_cast<std::int32_t>(tensor), end + gap, {}};
  const auto& p = base::at(parameters, tensor);
  for (std::size_t d = 0; d < p.shape.size(); ++d) {
    const auto start = stored.box.start[d] = in.varint(), count = stored.box.count[d] = in.varint();
    if (count < 1 || start > p.shape[d] || count > p.shape[d] - start)
      in.refuse("a box from {} on of {} in dim {} of {}, which has {}", start, count, d, p.name, p.shape[d]);
  }
  return stored;
}

FileEntry read_parts(RecordReader& in, std::uint32_t datasets, std::uint32_t ranges) {
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

}  // namespace

std::string index_bytes(const RankIndex& index, const std::vector<ParameterEntry>& parameters) {
  RecordWriter out;
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

RankIndex index_from_bytes(std::string_view bytes, const std::vector<ParameterEntry>& parameters,
                           const std::string& where) {
  RecordReader in(bytes, where);
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
  index.boxes.reserve(in.records(boxes, 4));  // a box of one dim has 4 bytes or more
  std::int64_t end = 0;
  for (std::uint64_t i = 0; i < boxes; ++i) {
    index.boxes.push_back(read_box(in, end, parameters));
    end = index.boxes.back().end();
    if (end > largest_count) in.refuse("a box ends beyond what is possible");
  }
  if (!in.done()) in.refuse("{} bytes follow the last box", in.left());
  return index;
}

}  // namespace trainyard::checkpoint
