// The mean of weights.
#include "libtrain/checkpoint/average.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/filled_checkpoint.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>
#include <filesystem>

namespace trainyard::checkpoint {

namespace {

std::string name_and_shape(const ParameterEntry& p) { return fmt::format("{} [{}]", p.name, fmt::join(p.shape, ", ")); }

void require_same_shapes(const std::vector<const Reader*>& sources) {
  for (const auto* source : sources) {
    const bool adapted = plan::has_adapter(source->state().model);
    if (adapted != plan::has_adapter(sources.front()->state().model))
      throw base::InputError(
          fmt::format("{} has {} and {} has {}: they cannot be averaged", source->path(), adapted ? "adapters" : "none",
                      sources.front()->path(), adapted ? "none" : "adapters"),
          "reshard-checkpoint --merge adds adapters to their weights");
  }
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

void require_moving_average(const Reader& source) {
  const auto& s = source.state();
  const auto& states = s.optimizer.states;
  if (s.contents == Contents::model || std::ranges::find(states, plan::average_state) == states.end())
    throw base::InputError(fmt::format("{} holds no moving average of its weights", source.path()),
                           base::text("a run keeps one from its beginning with $ema"));
  if (s.step == s.skipped_steps)
    throw base::InputError(fmt::format("{}: no step has changed the weights, so there is no average", source.path()),
                           "take a later checkpoint");
}

void mean_of_sources(const Kind& kind, const FilledCheckpoint::Slice& slice, FilledCheckpoint::Sources& sources,
                     std::vector<float>& values) {
  if (kind.is_state()) return sources.read(sources.readers.back(), kind, slice, values);
  std::vector<double> mean(values.size(), 0.0);
  for (auto& reader : sources.readers) {
    sources.read(reader, Kind::master, slice, values);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(values[i]);
  }
  const auto n = static_cast<double>(sources.readers.size());
  for (std::size_t i = 0; i < mean.size(); ++i) values[i] = static_cast<float>(mean[i] / n);
}

// Frozen parameters have no average, and stay as they are.
void take_moving_average(const Kind&, const FilledCheckpoint::Slice& slice, FilledCheckpoint::Sources& sources,
                         std::vector<float>& values) {
  auto& reader = sources.readers.back();
  const bool frozen = reader.manifest().parameters[reader.number_of(slice.name)].frozen;
  sources.read(reader, frozen ? Kind::master : Kind::state(plan::average_state), slice, values);
}

// Where the mean is written.
struct Destination {
  const std::string& path;
  const NewLayout& layout;
  const ReshardOptions& options;
};

// What is computed, and the key of the provenance that lists the sources.
struct MeanWork {
  const char* name;
  const char* key;
  FilledCheckpoint::Compute compute;
};

ReshardResult write_mean(const std::vector<const Reader*>& sources, const Destination& to,
                         const MeanWork& work_of) try {
  const auto& destination = to.path;
  const auto& layout = to.layout;
  const auto& options = to.options;
  const auto& last = *sources.back();
  const auto ranks = ranks_of_layout(last.manifest(), layout);
  auto state = state_of_layout(last.state(), layout, ranks);
  NewCheckpointOptions folder{options.existing, {}, options.threads, options.history, options.free_bytes, [&] {
                                if (options.watch) options.watch(0, last.bytes());
                              }};
  auto& of = state.provenance[work_of.key] = nlohmann::json::array();
  for (const auto* source : sources) {
    folder.sources.push_back(source->path());
    of.push_back({{"path", base::text_of_path(source->path())}, {"step", source->state().step}});
  }
  state.writer = purpose_of(work_of.name, sources, state, ranks.topology);
  NewCheckpoint target(destination, state, ranks, folder);
  return fill_and_publish(sources, target, options, work_of.compute);
} catch (const std::filesystem::filesystem_error& e) {
  throw base::EnvironmentError(e.what());
}

}  // namespace

ReshardResult average(const std::vector<const Reader*>& sources, const std::string& destination,
                      const NewLayout& layout, const ReshardOptions& options) {
  TRAINYARD_ASSERT(!sources.empty(), "a mean of {} checkpoints", sources.size());
  require_same_shapes(sources);
  require_same_models(sources);
  for (const auto* source : sources)
    if (plan::has_adapter(source->state().model))
      throw base::UsageError(
          fmt::format("{} has adapters: the mean of both matrices is not the mean of their product", source->path()),
          "reshard-checkpoint --merge each of them first");
  return write_mean(sources, {destination, layout, options}, {"average", "average_of", mean_of_sources});
}

ReshardResult moving_average(const Reader& source, const std::string& destination, NewLayout layout,
                             const ReshardOptions& options) {
  layout.contents = Contents::model;
  require_moving_average(source);
  return write_mean({&source}, {destination, layout, options},
                    {"moving average", "moving_average_of", take_moving_average});
}

}  // namespace trainyard::checkpoint
