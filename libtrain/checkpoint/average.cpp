// Fills the rank files of the mean part by part.
#include "libtrain/checkpoint/average.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/parts.h"
#include "libtrain/plan/model_file/model_fields.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace trainyard::checkpoint {

namespace {

constexpr std::int64_t part_elements = std::int64_t{1} << 20;  // elements of one box that are averaged at once
constexpr std::int64_t thread_bytes = 24 << 20;  // memory of a thread: mean, values and result of a part, and blocks

struct Part {
  int rank = 0;
  Kind kind = Kind::model;
  std::int64_t first = 0, end = 0;  // elements of the datasets
};

using Fingerprints = std::map<std::string, std::uint64_t>;

class Averaging {
 public:
  // weights_from: the weights are this state of the only source, times `factor`.
  struct WeightsFrom {
    Kind state;
    double factor;
  };
  Averaging(const std::vector<const Reader*>& sources, NewCheckpoint& target, const ReshardOptions& options,
            const std::optional<WeightsFrom>& weights_from = {})
      : sources_(sources), target_(target), options_(options), weights_from_(weights_from) {
    for (int r = 0; r < target.ranks(); ++r)
      if (!target.rank(r).is_kept()) add_parts(r);
  }

  Fingerprints run() {
    const auto threads =
        static_cast<int>(std::clamp<std::int64_t>(options_.memory / thread_bytes, 1, options_.threads));
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
      bytes_read_ += h->bytes_read;
    }
    return made;
  }
  std::int64_t bytes_read() const { return bytes_read_; }  // of tensors

 private:
  struct Hands {
    std::vector<Reader> readers;
    WritingHands writing;
    std::vector<double> mean;
    std::vector<float> values;
    std::vector<char> narrow;
    Fingerprints made;
    std::int64_t bytes_read = 0;
    explicit Hands(const std::vector<const Reader*>& sources) {
      for (const auto* source : sources) readers.push_back(source->another());
    }
  };

  void add_parts(int rank) {
    for (const auto& kind : kinds_of(target_.state())) {
      const auto& boxes = target_.rank(rank).boxes(kind);
      const auto elements = boxes.empty() ? 0 : boxes.back().end();
      for (std::int64_t first = 0; first < elements; first += part_elements)
        parts_.push_back({rank, kind, first, std::min(elements, first + part_elements)});
      all_ += elements;
    }
  }

  void fill(const Part& part, Hands& h) {
    const auto& tensors = target_.tensors().of(part.kind);
    for_each_box(target_.rank(part.rank).boxes(part.kind), part.first, part.end,
                 [&](const StoredBox& stored, std::int64_t from, std::int64_t to) {
                   put(part, base::at(tensors, stored.tensor), stored, from, to, h);
                 });
    const std::lock_guard lock(mutex_);
    done_ += part.end - part.first;
    if (options_.watch) options_.watch(done_, all_);
  }

  // Elements of a tensor that are consecutive in the datasets.
  struct Slice {
    const std::string& name;
    std::vector<Box> boxes;
    std::int64_t count;
  };

  static void read(Reader& reader, const Kind& kind, const Slice& slice, Hands& h) {
    reader.read_boxes(kind, slice.name, slice.boxes, h.values.data());
    const auto& from = reader.state();
    h.bytes_read += slice.count * base::size_of(dtype_of(kind == Kind::master ? exact_weights(from) : kind, from));
  }

  void compute(const Kind& kind, const Slice& slice, Hands& h) const {
    h.values.resize(base::size(slice.count));
    if (kind.is_state()) return read(h.readers.back(), kind, slice, h);
    if (weights_from_) {
      read(h.readers.back(), weights_from_->state, slice, h);
      for (auto& value : h.values) value = static_cast<float>(static_cast<double>(value) * weights_from_->factor);
      return;
    }
    h.mean.assign(h.values.size(), 0.0);
    for (auto& reader : h.readers) {
      read(reader, Kind::master, slice, h);
      for (std::size_t i = 0; i < h.mean.size(); ++i) h.mean[i] += static_cast<double>(h.values[i]);
    }
    const auto n = static_cast<double>(h.readers.size());
    for (std::size_t i = 0; i < h.mean.size(); ++i) h.values[i] = static_cast<float>(h.mean[i] / n);
  }

  // Computes and writes elements [from, to) of the datasets, which lie in one stored box.
  void put(const Part& part, const ParameterEntry& p, const StoredBox& stored, std::int64_t from, std::int64_t to,
           Hands& h) {
    compute(part.kind, {p.name, boxes_within(p.shape, stored, from - stored.offset, to - from), to - from}, h);
    const auto dtype = dtype_of(part.kind, target_.state());
    const char* data = reinterpret_cast<const char*>(h.values.data());
    const auto size = base::size_of(dtype);
    if (base::is_narrow(dtype)) {
      h.narrow.resize(h.values.size() * base::size(size));
      base::from_f32(dtype, h.values.data(), std::ssize(h.values), h.narrow.data());
      data = h.narrow.data();
    }
    auto& made = h.made[path_of(part.kind, p.name)];
    for_each_run_of_range(p.shape, stored, from - stored.offset, to - from, [&](const Run& run) {
      made += base::fingerprint(data + (run.at - from) * size, run.count, static_cast<int>(size),
                                static_cast<std::uint64_t>(run.element));
    });
    target_.rank(part.rank).write(part.kind, from, to - from, data, h.writing);
  }

  const std::vector<const Reader*>& sources_;
  NewCheckpoint& target_;
  const ReshardOptions& options_;
  std::optional<WeightsFrom> weights_from_;
  std::vector<Part> parts_;
  std::mutex mutex_;
  std::int64_t done_ = 0, all_ = 0, bytes_read_ = 0;
};

std::string name_and_shape(const ParameterEntry& p) { return fmt::format("{} [{}]", p.name, fmt::join(p.shape, ", ")); }

void require_same_shapes(const std::vector<const Reader*>& sources) {
  const auto& expected = sources.front()->manifest().parameters;
  for (const auto* source : sources) {
    const auto& found = source->manifest().parameters;
    for (std::size_t i = 0; i < std::max(expected.size(), found.size()); ++i) {
      if (i < expected.size() && i < found.size() && expected[i] == found[i]) continue;
      throw base::InputError(
          fmt::format("{} has {} where {} has {}: checkpoints of different models cannot be averaged", source->path(),
                      i < found.size() ? name_and_shape(found[i]) : "nothing", sources.front()->path(),
                      i < expected.size() ? name_and_shape(expected[i]) : "nothing"),
          "give checkpoints of one model: compare with inspect");
    }
  }
}

// Models of equal shapes may compute different things. Settings that matter only in training, and the number of
// reduction lanes, may differ.
void require_same_models(const std::vector<const Reader*>& sources) {
  const auto matters = [](const base::Field& f) {
    return !plan::is_name(f) && f.name != "lanes" && !f.name.starts_with("dropout-");
  };
  auto expected = sources.front()->state().model;
  const auto ours = plan::fields_of(expected);
  for (const auto* source : sources) {
    auto found = source->state().model;
    const auto theirs = plan::fields_of(found);
    for (std::size_t i = 0; i < ours.size(); ++i)
      if (matters(ours[i]) && ours[i].get() != theirs[i].get())
        throw base::InputError(
            fmt::format("{} has {} {} where {} has {}: checkpoints of different models cannot be averaged",
                        source->path(), theirs[i].name, base::excerpt(theirs[i].get()), sources.front()->path(),
                        base::excerpt(ours[i].get())),
            "give checkpoints of one model: compare with inspect");
  }
}

// The factor that makes a weight of the moving average that a checkpoint holds.
double factor_of_average(const Reader& source) {
  const auto& s = source.state();
  const auto& states = s.optimizer.states;
  if (s.contents == Contents::model || std::ranges::find(states, plan::average_state) == states.end())
    throw base::InputError(fmt::format("{} holds no moving average of its weights", source.path()),
                           base::text("a run keeps one from its beginning with $ema"));
  const auto decay =
      s.identity.is_object() ? s.identity.value(plan::average_state, nlohmann::json()) : nlohmann::json();
  if (!decay.is_number() || !(decay.get<double>() > 0 && decay.get<double>() < 1))
    throw base::InputError(fmt::format("{} does not say the decay of its average", source.path()),
                           "the checkpoint is damaged");
  const auto updates = s.step - s.skipped_steps;
  if (updates < 1)
    throw base::InputError(fmt::format("{}: no step has changed the weights, so there is no average", source.path()),
                           "take a later checkpoint");
  return 1 / (1 - std::pow(decay.get<double>(), static_cast<double>(updates)));
}

// Where the mean is written.
struct Destination {
  const std::string& path;
  const NewLayout& layout;
  const ReshardOptions& options;
};

ReshardResult write_mean(const std::vector<const Reader*>& sources, const Destination& to,
                         const std::optional<Averaging::WeightsFrom>& moving = {}) try {
  const auto& [destination, layout, options] = to;
  const auto& last = *sources.back();
  const auto ranks = ranks_of_layout(last.manifest(), layout);
  auto state = state_of_layout(last.state(), layout, ranks);
  NewCheckpointOptions folder{options.existing, {}, options.threads, options.history, options.free_bytes, [&] {
                                if (options.watch) options.watch(0, last.bytes());
                              }};
  auto& of = state.provenance[moving ? "moving_average_of" : "average_of"] = nlohmann::json::array();
  for (const auto* source : sources) {
    folder.sources.push_back(source->path());
    of.push_back({{"path", base::text_of_path(source->path())}, {"step", source->state().step}});
  }
  state.writer = purpose_of(moving ? "moving average" : "average", sources, state, ranks.topology);
  NewCheckpoint target(destination, state, ranks, folder);
  ReshardResult result{ranks.topology.world(), target.kept(), 0, target.bytes_to_write(), {}};
  Averaging work(sources, target, options, moving);
  const auto made = work.run();
  result.bytes_read = work.bytes_read();
  result.manifest = target.publish([&](const Manifest& written) { target.require_fingerprints(written, made); });
  return result;
} catch (const std::filesystem::filesystem_error& e) {
  throw base::EnvironmentError(e.what());
}

}  // namespace

ReshardResult average(const std::vector<const Reader*>& sources, const std::string& destination,
                      const NewLayout& layout, const ReshardOptions& options) {
  TRAINYARD_ASSERT(!sources.empty(), "a mean of {} checkpoints", sources.size());
  require_same_shapes(sources);
  require_same_models(sources);
  return write_mean(sources, {destination, layout, options});
}

ReshardResult moving_average(const Reader& source, const std::string& destination, NewLayout layout,
                             const ReshardOptions& options) {
  layout.contents = Contents::model;
  return write_mean({&source}, {destination, layout, options},
                    Averaging::WeightsFrom{Kind::state(plan::average_state), factor_of_average(source)});
}

}  // namespace trainyard::checkpoint
