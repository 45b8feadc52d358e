// Computes, rounds and writes the parts of a new checkpoint.
#include "libtrain/checkpoint/filled_checkpoint.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/index.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/checkpoint/hugging_face.h"
#include "libtrain/checkpoint/parts.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace trainyard::checkpoint {

namespace {

constexpr std::int64_t part_elements = std::int64_t{1} << 20;  // elements of one box that are computed at once
constexpr std::int64_t thread_bytes = 24 << 20;  // memory of a thread: values and results of a part, and blocks

}  // namespace

struct FilledCheckpoint::Hands {
  Sources sources;
  WritingHands writing;
  std::vector<float> values;
  std::vector<char> narrow;
  Fingerprints made;
  explicit Hands(const std::vector<const Reader*>& all) {
    for (const auto* source : all) sources.readers.push_back(source->another());
  }
};

void FilledCheckpoint::Sources::read(Reader& reader, const Kind& kind, const Slice& slice, std::vector<float>& values) {
  values.resize(base::size(slice.count));
  reader.read_boxes(kind, slice.name, slice.boxes, values.data());
  const auto& from = reader.state();
  bytes_read += slice.count * base::size_of(dtype_of(kind == Kind::master ? exact_weights(from) : kind, from));
}

FilledCheckpoint::FilledCheckpoint(const std::vector<const Reader*>& sources, NewCheckpoint& target,
                                   const ReshardOptions& options, Compute compute)
    : sources_(sources), target_(target), options_(options), compute_(std::move(compute)) {
  for (int r = 0; r < target.ranks(); ++r)
    if (!target.rank(r).is_kept()) add_parts(r);
}

Fingerprints FilledCheckpoint::run() {
  const auto threads = static_cast<int>(std::clamp<std::int64_t>(options_.memory / thread_bytes, 1, options_.threads));
  std::vector<std::unique_ptr<Hands>> hands(base::size(threads));
  for_each_part(parts_.size(), threads, [&](std::size_t i, int thread) {
    auto& h = base::at(hands, thread);
    if (h == nullptr) h = std::make_unique<Hands>(sources_);
    fill(parts_[i], *h);
  });
  Fingerprints made;
  for (const auto& h : hands) {
    if (h == nullptr) continue;
    for (const auto& [path, fingerprint] : h->made) made[path] += fingerprint;
    bytes_read_ += h->sources.bytes_read;
  }
  return made;
}

void FilledCheckpoint::add_parts(int rank) {
  for (const auto& kind : kinds_of(target_.state())) {
    const auto& boxes = target_.rank(rank).boxes(kind);
    const auto elements = boxes.empty() ? 0 : boxes.back().end();
    for (std::int64_t first = 0; first < elements; first += part_elements)
      parts_.push_back({rank, kind, first, std::min(elements, first + part_elements)});
    all_ += elements * base::size_of(dtype_of(kind, target_.state()));
  }
}

void FilledCheckpoint::fill(const Part& part, Hands& h) {
  const auto& tensors = target_.tensors().of(part.kind);
  for_each_box(target_.rank(part.rank).boxes(part.kind), part.first, part.end,
               [&](const StoredBox& stored, std::int64_t from, std::int64_t to) {
                 put(part, base::at(tensors, stored.tensor), stored, from, to, h);
               });
  const std::lock_guard lock(mutex_);
  done_ += (part.end - part.first) * base::size_of(dtype_of(part.kind, target_.state()));
  if (options_.watch) options_.watch(done_, all_);
}

// Computes and writes elements [from, to) of the datasets, which lie in one stored box.
void FilledCheckpoint::put(const Part& part, const ParameterEntry& p, const StoredBox& stored, std::int64_t from,
                           std::int64_t to, Hands& h) {
  const Slice slice{p.name, boxes_within(p.shape, stored, from - stored.offset, to - from), to - from};
  h.values.resize(base::size(slice.count));
  compute_(part.kind, slice, h.sources, h.values);
  const auto dtype = dtype_of(part.kind, target_.state());
  const char* data = reinterpret_cast<const char*>(h.values.data());
  const auto size = base::size_of(dtype);
  if (base::is_narrow(dtype)) {
    h.narrow.resize(h.values.size() * base::size(size));
    if (const auto lost = from_f32_counting(dtype, h.values.data(), std::ssize(h.values), h.narrow.data()); lost > 0)
      throw base::InputError(fmt::format("{} values of {} are too large for {}", lost, p.name, base::name_of(dtype)),
                             base::text("$dtype f32 or bf16 holds them"));
    data = h.narrow.data();
  }
  auto& made = h.made[path_of(part.kind, p.name)];
  for_each_run_of_range(p.shape, stored, from - stored.offset, to - from, [&](const Run& run) {
    made += base::fingerprint(data + (run.at - from) * size, run.count, static_cast<int>(size),
                              static_cast<std::uint64_t>(run.element));
  });
  target_.rank(part.rank).write(part.kind, from, to - from, data, h.writing);
}

ReshardResult fill_and_publish(const std::vector<const Reader*>& sources, NewCheckpoint& target,
                               const ReshardOptions& options, FilledCheckpoint::Compute compute) {
  ReshardResult result{target.ranks(), target.kept(), 0, target.bytes_to_write(), {}};
  FilledCheckpoint work(sources, target, options, std::move(compute));
  const auto made = work.run();
  result.bytes_read = work.bytes_read();
  result.manifest = target.publish([&](const Manifest& written) { target.require_fingerprints(written, made); });
  return result;
}

}  // namespace trainyard::checkpoint
