// Chooses experts, and takes each weight of the new model from where it comes.
#include "libtrain/checkpoint/chosen_experts.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/filled_checkpoint.h"
#include "libtrain/plan/blocks/experts.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <numeric>
#include <utility>

namespace trainyard::checkpoint {

namespace {

std::vector<std::int64_t> counts_of(const plan::ModelConfig& model) {
  std::vector<std::int64_t> out;
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    if (plan::layer_has_experts(model, layer)) out.push_back(plan::expert_count(plan::layer_model(model, layer)));
  return out;
}

// As a model has it: one number where all layers have as many.
std::vector<std::int64_t> shortened_counts(std::vector<std::int64_t> counts) {
  if (std::ranges::adjacent_find(counts, std::ranges::not_equal_to{}) == counts.end()) counts.resize(1);
  return counts;
}

void require_experts(const Reader& source, const char* work) {
  const auto& model = source.state().model;
  if (!plan::has_experts(model))
    throw base::UsageError(fmt::format("{} has no experts: its layers are dense", source.path()),
                           "inspect shows what a checkpoint has");
  if (plan::has_adapter(model))
    throw base::UsageError(fmt::format("{} has adapters, with which it cannot {}", source.path(), work),
                           "reshard-checkpoint --merge adds adapters to their weights first");
  if (source.manifest().parameters != parameters_of(model))
    throw base::InputError(fmt::format("{} has other tensors than its model", source.path()),
                           "it was written by a program with blocks of its own, which has to do it");
}

// Settings that matter only in training, the number of reduction lanes, and what joining itself decides.
bool may_differ(const std::string& name) {
  constexpr std::array free{"lanes",          "experts-count", "experts-groups",   "experts-balance-loss",
                            "experts-z-loss", "experts-noise", "experts-bias-rate"};
  return name.starts_with("dropout-") || std::ranges::find(free, name) != free.end();
}

void require_joinable(const Reader& first, const Reader& other) {
  auto ours = first.state().model, theirs = other.state().model;
  const auto a = plan::fields_of(ours), b = plan::fields_of(theirs);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto& name = a[i].name;
    if (plan::is_name(a[i]) || may_differ(name) || a[i].get() == b[i].get()) continue;
    throw base::InputError(
        fmt::format("{} has {} {} where {} has {}: experts of different models cannot be joined", other.path(), name,
                    base::excerpt(b[i].get()), first.path(), base::excerpt(a[i].get())),
        "give mixtures that differ in the number of experts alone: compare with inspect");
  }
}

nlohmann::json tokenizer_of(const Reader& source) {
  const auto& provenance = source.state().provenance;
  const auto found = provenance.is_object() ? provenance.find("tokenizer") : provenance.end();
  return found != provenance.end() && found->is_object() && found->contains("crc32c") ? (*found)["crc32c"]
                                                                                      : nlohmann::json();
}

void require_same_tokenizer(const Reader& first, const Reader& other) {
  const auto a = tokenizer_of(first), b = tokenizer_of(other);
  if (a.is_null() || b.is_null() || a == b) return;
  throw base::InputError(
      fmt::format("{} was trained with another tokenizer than {}: their tokens have different numbers", other.path(),
                  first.path()),
      "train both on shard sets of one tokenizer (shard-data --tokenizer)");
}

// Groups of a joined model: those of the sources side by side, if they are of one size.
std::int64_t joined_groups(const std::vector<const Reader*>& sources) {
  std::int64_t groups = 0;
  std::vector<std::int64_t> size;  // of each layer
  for (const auto* source : sources) {
    const auto& e = source->state().model.experts;
    auto counts = counts_of(source->state().model);
    for (auto& n : counts) n /= e.groups;
    if (groups > 0 && (counts != size && (groups > 1 || e.groups > 1)))
      throw base::UsageError(
          fmt::format("{} has groups of other numbers of experts than {}", source->path(), sources.front()->path()),
          "join mixtures whose groups have as many experts");
    const bool grouped = e.groups > 1 || groups > 1;
    size = counts, groups = grouped ? groups + e.groups : 1;
  }
  return groups;
}

void require_legal(const plan::ModelConfig& model, const char* what) {
  if (const auto wrong = plan::problems(model); !wrong.empty())
    throw base::UsageError(fmt::format("the model with {} would be illegal: {}", what, wrong.front()),
                           "other numbers of experts");
}

// Where each tensor of the new model comes from. The tensors that are not here are the mean over the sources.
class Origins {
 public:
  Origins(const std::vector<const Reader*>& sources, const ChosenExperts& chosen) {
    std::int64_t at = -1;
    std::string layer_name;
    std::vector<std::vector<std::int64_t>> counts;
    for (const auto* source : sources) counts.push_back(counts_of(source->state().model));
    for (const auto& p : parameters_of(chosen.model)) {
      const auto dot = p.name.find(experts_in);
      if (dot == std::string::npos) continue;
      if (const auto layer = p.name.substr(0, dot); layer != layer_name) {
        layer_name = layer, ++at;
        for (const char* gate : {".gate.weight", ".gate.bias"}) gates_[layer + gate] = &base::at(chosen.layers, at);
      }
      const auto number = dot + experts_in.size(), rest = p.name.find('.', number);
      const auto& expert = base::at(base::at(chosen.layers, at), std::stoll(p.name.substr(number, rest - number)));
      const auto count = base::at(base::at(counts, expert.source), at);
      experts_[p.name] = {expert.source, layer_name + std::string(experts_in) +
                                             plan::expert_name(count, expert.expert) + p.name.substr(rest)};
    }
    TRAINYARD_ASSERT(at + 1 == std::ssize(chosen.layers), "{} layers with experts, not {}", at + 1,
                     chosen.layers.size());
  }
  // null: the tensor is no expert's.
  const std::pair<int, std::string>* expert(const std::string& name) const {
    const auto found = experts_.find(name);
    return found == experts_.end() ? nullptr : &found->second;
  }
  // The sources of the rows of a gate; null: the tensor has no row for each expert.
  const std::vector<ChosenExpert>* gate(const std::string& name) const {
    const auto found = gates_.find(name);
    return found == gates_.end() ? nullptr : found->second;
  }

 private:
  static constexpr std::string_view experts_in = ".experts.";
  std::map<std::string, std::pair<int, std::string>> experts_;
  std::map<std::string, const std::vector<ChosenExpert>*> gates_;
};

using Slice = FilledCheckpoint::Slice;
using FromSources = FilledCheckpoint::Sources;

void read_rows(const std::vector<ChosenExpert>& rows, const Slice& slice, FromSources& from,
               std::vector<float>& values) {
  std::vector<float> read;
  auto to = values.begin();
  for (const auto& box : slice.boxes)
    for (std::int64_t row = 0; row < box.count[0];) {
      const auto& first = base::at(rows, box.start[0] + row);
      std::int64_t run = 1;
      while (row + run < box.count[0]) {
        const auto& next = base::at(rows, box.start[0] + row + run);
        if (next.source != first.source || next.expert != first.expert + run) break;
        ++run;
      }
      auto part = box;
      part.start[0] = first.expert, part.count[0] = run;
      from.read(base::at(from.readers, first.source), Kind::master, {slice.name, {part}, part.elements()}, read);
      to = std::copy(read.begin(), read.end(), to);
      row += run;
    }
}

void read_mean(const Slice& slice, FromSources& from, std::vector<float>& values) {
  if (from.readers.size() == 1) return from.read(from.readers.front(), Kind::master, slice, values);
  std::vector<double> mean(values.size(), 0.0);
  for (auto& reader : from.readers) {
    from.read(reader, Kind::master, slice, values);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(values[i]);
  }
  const auto n = static_cast<double>(from.readers.size());
  for (std::size_t i = 0; i < mean.size(); ++i) values[i] = static_cast<float>(mean[i] / n);
}

RunState state_of_chosen(const Reader& source, const ChosenExperts& chosen) {
  auto state = source.state();
  state.model = chosen.model;
  state.contents = Contents::model;
  if (state.identity.is_object() && state.identity.contains("model"))
    state.identity["model"] = plan::model_to_json(state.model);
  return state;
}

}  // namespace

ChosenExperts joined_experts(const std::vector<const Reader*>& sources) {
  TRAINYARD_ASSERT(!sources.empty(), "experts of {} checkpoints", sources.size());
  ChosenExperts chosen{"join experts", sources.back()->state().model, {}};
  std::vector<std::int64_t> counts;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const auto& source = *sources[s];
    require_experts(source, "be joined");
    require_joinable(*sources.front(), source);
    require_same_tokenizer(*sources.front(), source);
    const auto own = counts_of(source.state().model);
    counts.resize(own.size());
    chosen.layers.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      counts[i] += own[i];
      for (std::int64_t e = 0; e < own[i]; ++e) chosen.layers[i].push_back({static_cast<int>(s), e});
    }
  }
  chosen.model.experts.count = shortened_counts(std::move(counts));
  chosen.model.experts.groups = joined_groups(sources);
  require_legal(chosen.model, "all experts");
  return chosen;
}

ChosenExperts most_used_experts(const Reader& source, std::int64_t count, const ExpertUse& use,
                                const std::string& where) {
  require_experts(source, "keep some experts");
  const auto& model = source.state().model;
  const auto& e = model.experts;
  const auto counts = counts_of(model);
  const auto [fewest, most] = std::ranges::minmax(counts);
  if (count < 1 || count > fewest)
    throw base::UsageError(
        base::text("$keep-experts {}: a layer of {} has {}", count, source.path(), base::counted(fewest, "expert")),
        base::text("$keep-experts 1 to {}", fewest));
  if (count < e.top_k)
    throw base::UsageError(base::text("$keep-experts {}: each token goes to {} of them", count, e.top_k),
                           base::text("$keep-experts {} or more", e.top_k));
  if (count == most)
    throw base::UsageError(base::text("$keep-experts {}: no layer of {} has more", count, source.path()),
                           "fewer of them");
  if (e.groups > 1)
    throw base::UsageError(
        fmt::format("{} has {} groups of experts, which must stay as large as one another", source.path(), e.groups),
        "a model with experts-groups keeps all of its experts");
  require_use_of(model, use, where);
  if (use.step != source.state().step)
    throw base::InputError(fmt::format("{}: the use of experts at step {}, and {} is of step {}", where, use.step,
                                       source.path(), source.state().step),
                           base::text("evaluate this checkpoint: train $evaluate CHECKPOINT $json > FILE"));
  ChosenExperts chosen{"keep experts", model, {}};
  for (const auto& layer : use.layers) {
    std::vector<std::int64_t> order(layer.choices.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater{}, [&](std::int64_t i) { return base::at(layer.choices, i); });
    order.resize(base::size(count));
    std::ranges::sort(order);
    auto& kept = chosen.layers.emplace_back();
    for (const auto expert : order) kept.push_back({0, expert});
  }
  chosen.model.experts.count = {count};
  require_legal(chosen.model, "these experts");
  return chosen;
}

Manifest manifest_of_chosen(const Reader& source, const ChosenExperts& chosen) {
  auto manifest = source.manifest();
  manifest.state = state_of_chosen(source, chosen);
  manifest.parameters = parameters_of(chosen.model);
  return manifest;
}

ReshardResult take_experts(const std::vector<const Reader*>& sources, const ChosenExperts& chosen,
                           const std::string& destination, const NewLayout& asked, const ReshardOptions& options) try {
  const auto& last = *sources.back();
  auto layout = asked;
  layout.contents = Contents::model;
  if (!layout.dtype) layout.dtype = base::DType::f32;
  const auto manifest = manifest_of_chosen(last, chosen);
  const auto ranks = ranks_of_layout(manifest, layout);
  auto state = state_of_layout(manifest.state, layout, ranks);
  NewCheckpointOptions folder{options.existing, {}, options.threads, options.history, options.free_bytes, [&] {
                                if (options.watch) options.watch(0, last.bytes());
                              }};
  auto& of = state.provenance["experts_of"] = nlohmann::json::array();
  for (const auto* source : sources) {
    folder.sources.push_back(source->path());
    of.push_back({{"path", base::text_of_path(source->path())}, {"step", source->state().step}});
  }
  auto& experts = state.provenance["experts_taken"] = nlohmann::json::array();
  for (const auto& layer : chosen.layers) {
    auto& list = experts.emplace_back(nlohmann::json::array());
    for (const auto& e : layer) list.push_back({e.source, e.expert});
  }
  state.writer = purpose_of(chosen.work, sources, state, ranks.topology);
  NewCheckpoint target(destination, state, ranks, folder);
  const Origins origins(sources, chosen);
  return fill_and_publish(sources, target, options, [&](const Kind&, const auto& slice, auto& from, auto& values) {
    if (const auto* expert = origins.expert(slice.name))
      from.read(base::at(from.readers, expert->first), Kind::master, {expert->second, slice.boxes, slice.count},
                values);
    else if (const auto* rows = origins.gate(slice.name)) read_rows(*rows, slice, from, values);
    else read_mean(slice, from, values);
  });
} catch (const std::filesystem::filesystem_error& e) {
  throw base::EnvironmentError(e.what());
}

}  // namespace trainyard::checkpoint
