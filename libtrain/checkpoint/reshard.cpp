// Reads the blocks of a checkpoint in the order in which rank files of the new checkpoint become complete.
#include "libtrain/checkpoint/reshard.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/read_file.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/parts.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace trainyard::checkpoint {

namespace {

// Consecutive blocks of one payload that are read at once.
struct Chunk {
  int first_target = 0;  // lowest rank of the new checkpoint that gets elements of it
  int rank = 0;
  Kind kind = Kind::model;
  std::int64_t block = 0, blocks = 0;
};

// The destination kind of a source kind, and the dtypes of both.
struct Copy {
  Kind to = Kind::model;
  base::DType from = base::DType::f32, into = from;
  bool casts() const { return from != into; }
};

std::vector<Copy> copies_of(const Kind& kind, const RunState& from, const RunState& to) {
  if (kind.is_state()) return has(to, kind) ? std::vector<Copy>{{kind}} : std::vector<Copy>{};
  std::vector<Copy> out;
  // Weights that have a master are its rounded copy. A destination of their dtype keeps them; another makes its own.
  const auto exact = exact_weights(from), best = exact_weights(to);
  const bool keeps_model = exact != Kind::model && to.dtype == from.dtype;
  const auto before = dtype_of(kind, from);
  if (kind == exact) {
    if (best != Kind::model || !keeps_model) out.push_back({best, before, dtype_of(best, to)});
    if (best != Kind::model && !keeps_model) out.push_back({Kind::model, before, to.dtype});
  } else if (keeps_model) {
    out.push_back({kind, before, before});
  }
  return out;
}

void cast_values(const Copy& copy, std::int64_t count, const char* from, char* to) {
  std::array<float, 4096> wide;
  for (std::int64_t done = 0; done < count;) {
    const auto n = std::min(count - done, std::ssize(wide));
    base::to_f32(copy.from, from + done * base::size_of(copy.from), n, wide.data());
    base::from_f32(copy.into, wide.data(), n, to + done * base::size_of(copy.into));
    done += n;
  }
}

class Resharding {
 public:
  Resharding(const Reader& source, NewCheckpoint& target, const ReshardOptions& options)
      : source_(source), target_(target), options_(options), from_(source.state()), to_(target.state()) {
    constexpr std::int64_t most_blocks = 8;
    threads_ = static_cast<int>(std::clamp<std::int64_t>(options.memory / least_reshard_memory, 1, options.threads));
    for (const auto& kind : kinds_of(from_)) copies_[kind] = copies_of(kind, from_, to_);
    // A thread's memory is one block to read back into, a chunk, and the cast chunk: half a chunk when narrowing f32,
    // at most two from a narrow dtype.
    const bool widens = std::any_of(copies_.begin(), copies_.end(), [](const auto& of_kind) {
      return std::any_of(of_kind.second.begin(), of_kind.second.end(),
                         [](const Copy& c) { return c.casts() && base::is_narrow(c.from); });
    });
    const auto blocks = options.memory / threads_ / io::block_bytes - 1;
    chunk_blocks_ = std::clamp<std::int64_t>(widens ? blocks / 3 : blocks * 2 / 3, 1, most_blocks);
    for (int rank = 0; rank < source.manifest().ranks; ++rank)
      for (const auto& kind : kinds_of(from_))
        if (from_.contents == to_.contents || !copies_.at(kind).empty()) add_chunks(rank, kind);
    std::stable_sort(chunks_.begin(), chunks_.end(),
                     [](const Chunk& a, const Chunk& b) { return a.first_target < b.first_target; });
  }

  std::int64_t run() {
    std::vector<Hands> hands(base::size(threads_));
    for_each_part(chunks_.size(), threads_, [&](std::size_t i, int thread) {
      auto& h = base::at(hands, thread);
      // The disk fetches the next chunk while this one is processed.
      if (const auto next = i + base::size(threads_); next < chunks_.size()) announce(chunks_[next], h);
      move(chunks_[i], h);
    });
    for (const auto& h : hands)
      for (const auto& [path, fingerprint] : h.made) made_[path] += fingerprint;
    return done_;
  }

  void prove(const Manifest& written) const;

 private:
  struct Hands {
    OpenFiles sources{io::BulkFile::Mode::read};
    WritingHands writing;
    std::vector<char> chunk;
    std::vector<char> cast;
    std::map<std::string, std::uint64_t> made;  // fingerprints of the tensors that are cast
  };

  std::int64_t size_of(const Kind& kind) const { return base::size_of(dtype_of(kind, from_)); }
  const PayloadEntry& payload(const Chunk& c) const {
    return source_.manifest().files.at(rank_name(c.rank) + ".h5").payloads.at(path_of(c.kind));
  }
  // The elements [first, end) of its rank's datasets that a chunk holds.
  std::pair<std::int64_t, std::int64_t> elements_of(const Chunk& c) const {
    const auto size = size_of(c.kind);
    return {c.block * io::block_bytes / size,
            std::min((c.block + c.blocks) * io::block_bytes, payload(c).bytes) / size};
  }
  template <class F> void for_each_run_in(const Chunk& c, F&& f) const {
    const auto [first, end] = elements_of(c);
    for_each_box(source_.boxes(c.kind, c.rank), first, end,
                 [&](const StoredBox& stored, std::int64_t from, std::int64_t to) {
                   const auto& shape = base::at(source_.tensors_of(c.kind), stored.tensor).shape;
                   for_each_run_of_range(shape, stored, from - stored.offset, to - from,
                                         [&](const Run& run) { f(stored.tensor, run); });
                 });
  }
  void add_chunks(int rank, const Kind& kind);
  void move(const Chunk& c, Hands& hands);
  io::BulkFile& file_of(const Chunk& c, Hands& hands) const {
    return hands.sources.at(source_.path() + "/" + rank_name(c.rank) + ".h5");
  }
  void announce(const Chunk& c, Hands& hands) const;
  void read(const Chunk& c, Hands& hands) const;
  void put(const Kind& kind, std::int32_t tensor, const Run& run, const char* data, Hands& hands);
  void put_cast(const Copy& copy, std::int32_t tensor, const Run& run, const char* data, Hands& hands);
  void report(std::int64_t bytes);

  const Reader& source_;
  NewCheckpoint& target_;
  const ReshardOptions& options_;
  const RunState &from_, &to_;
  std::map<Kind, std::vector<Copy>> copies_;
  int threads_ = 1;
  std::int64_t chunk_blocks_ = 1;
  std::vector<Chunk> chunks_;
  std::map<std::string, std::uint64_t> made_;
  std::mutex mutex_;
  std::int64_t done_ = 0, all_ = 0;
};

void Resharding::add_chunks(int rank, const Kind& kind) {
  Chunk c{0, rank, kind, 0, 0};
  const auto shape = shape_of(kind, from_.optimizer);
  const auto blocks = io::blocks_of(payload(c).bytes);
  for (; c.block < blocks; c.block += chunk_blocks_) {
    c.blocks = std::min(chunk_blocks_, blocks - c.block);
    c.first_target = std::numeric_limits<int>::max();
    bool wanted = false, padding_alone = true;
    const auto look = [&](int r, std::int64_t, std::int64_t, std::int64_t) {
      c.first_target = std::min(c.first_target, r);
      wanted = wanted || !target_.rank(r).is_kept();
    };
    for_each_run_in(c, [&](std::int32_t tensor, const Run& run) {
      padding_alone = false;
      target_.places().for_each(shape, tensor, run.element, run.count, look);
    });
    if (!wanted && !padding_alone) continue;  // only finished rank files need it
    chunks_.push_back(c);
    const auto [first, end] = elements_of(c);
    all_ += (end - first) * size_of(kind);
  }
}

void Resharding::move(const Chunk& c, Hands& hands) {
  read(c, hands);
  const auto [first, end] = elements_of(c);
  const auto size = size_of(c.kind);
  for_each_run_in(c, [&, first = first](std::int32_t tensor, const Run& run) {
    const char* data = hands.chunk.data() + (run.at - first) * size;
    for (const auto& copy : copies_.at(c.kind))
      if (!copy.casts()) put(copy.to, tensor, run, data, hands);
      else put_cast(copy, tensor, run, data, hands);
  });
  report((end - first) * size);
}

void Resharding::announce(const Chunk& c, Hands& hands) const {
  const auto [first, end] = elements_of(c);
  file_of(c, hands).will_read(payload(c).offset + c.block * io::block_bytes, (end - first) * size_of(c.kind));
}

void Resharding::read(const Chunk& c, Hands& hands) const {
  const auto [first, end] = elements_of(c);
  const auto bytes = (end - first) * size_of(c.kind);
  hands.chunk.resize(base::size(chunk_blocks_ * io::block_bytes));
  file_of(c, hands).read(payload(c).offset + c.block * io::block_bytes, hands.chunk.data(), bytes);
  for (std::int64_t b = 0; b < c.blocks; ++b)
    source_.check_block(c.rank, c.kind, c.block + b, hands.chunk.data() + b * io::block_bytes);
}

void Resharding::put(const Kind& kind, std::int32_t tensor, const Run& run, const char* data, Hands& hands) {
  const auto size = base::size_of(dtype_of(kind, to_));
  target_.places().for_each(target_.tensors().shape_of(kind), tensor, run.element, run.count,
                            [&](int r, std::int64_t at, std::int64_t element, std::int64_t count) {
                              if (auto& rank = target_.rank(r); !rank.is_kept())
                                rank.write(kind, rank.place_in(kind, at), count, data + (element - run.element) * size,
                                           hands.writing);
                            });
}

// Writes a run in another dtype. The source has no fingerprint in that dtype, so it is summed here. Finished rank files
// are skipped: their sidecars have their fingerprints.
void Resharding::put_cast(const Copy& copy, std::int32_t tensor, const Run& run, const char* data, Hands& hands) {
  const auto& name = base::at(source_.manifest().parameters, tensor).name;
  auto& made = hands.made[path_of(copy.to, name)];
  const auto size = base::size_of(copy.into);
  hands.cast.resize(base::size(run.count * size));
  cast_values(copy, run.count, data, hands.cast.data());
  target_.places().for_each(
      tensor, run.element, run.count, [&](int r, std::int64_t at, std::int64_t element, std::int64_t count) {
        auto& rank = target_.rank(r);
        if (rank.is_kept()) return;
        const auto* from = hands.cast.data() + (element - run.element) * size;
        made += base::fingerprint(from, count, static_cast<int>(size), static_cast<std::uint64_t>(element));
        rank.write(copy.to, rank.place_in(copy.to, at), count, from, hands.writing);
      });
}

void Resharding::report(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  done_ += bytes;
  if (options_.watch) options_.watch(done_, all_);
}

void Resharding::prove(const Manifest& written) const {
  // For each kind of the new checkpoint, the source kind whose fingerprint it must have; nothing if it was cast.
  std::map<Kind, std::optional<Kind>> origin;
  for (const auto& [kind, copies] : copies_)
    for (const auto& copy : copies) origin[copy.to] = copy.casts() ? std::nullopt : std::optional(kind);
  for (const auto& p : written.parameters)
    for (const auto& kind : kinds_of(to_)) {
      if (p.frozen && kind != Kind::model) continue;
      const auto path = path_of(kind, p.name);
      auto expected = std::uint64_t{0};
      if (const auto of = origin.at(kind)) {
        expected = source_.manifest().tensors.at(path_of(*of, p.name)).fingerprint;
      } else {
        for (int r = 0; r < target_.ranks(); ++r)
          if (const auto& rank = target_.rank(r); rank.is_kept() && rank.tensors().contains(path))
            expected += rank.tensors().at(path).fingerprint;
        if (const auto made = made_.find(path); made != made_.end()) expected += made->second;
      }
      if (const auto found = written.tensors.at(path).fingerprint; found != expected)
        throw base::InputError(
            fmt::format("{}: {} was written with fingerprint {}, expected {}", source_.path(), path, hex64(found),
                        hex64(expected)),
            "its manifest does not belong to its files, or memory or a disk is at fault: see inspect --verify");
    }
}

}  // namespace

std::string purpose_of(const std::string& work, const std::vector<const Reader*>& sources, const RunState& state,
                       const plan::Topology& ranks) {
  std::string text;
  for (const auto* source : sources) text += base::read_file(source->path() + "/manifest.json");
  text += state_to_json(state).dump();
  for (const auto& a : ranks.finest_axes()) text += fmt::format(" {} {}", a.size, plan::name_of(a.axis));
  return fmt::format("{} {} {}", work, text.size(), hex32(base::crc32c(text.data(), text.size())));
}

ReshardResult reshard(const Reader& source, const std::string& destination, const NewLayout& layout,
                      const ReshardOptions& options) try {
  const auto ranks = ranks_of_layout(source.manifest(), layout);
  auto state = state_of_layout(source.state(), layout, ranks);
  if (plan::has_adapter(state.model) && state.dtype != source.state().dtype)
    throw base::UsageError(
        fmt::format("{} has adapters beside frozen weights, which are kept in {} alone: they cannot become {}",
                    source.path(), base::name_of(source.state().dtype), base::name_of(state.dtype)),
        "reshard-checkpoint --merge makes weights of another dtype");
  state.writer = purpose_of("reshard", {&source}, state, ranks.topology);
  NewCheckpoint target(destination, state, ranks,
                       {options.existing, {source.path()}, options.threads, options.history, options.free_bytes, [&] {
                          if (options.watch) options.watch(0, source.bytes());
                        }});
  ReshardResult result{ranks.topology.world(), target.kept(), 0, target.bytes_to_write(), {}};
  Resharding work(source, target, options);
  result.bytes_read = work.run();
  result.manifest = target.publish([&](const Manifest& written) { work.prove(written); });
  return result;
} catch (const std::filesystem::filesystem_error& e) {
  throw base::EnvironmentError(e.what());
}

}  // namespace trainyard::checkpoint
