// Chooses and loads the starting point.
#include "libtrain/engine/restore.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/latest_whole.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/checkpoint/read_sums.h"
#include "libtrain/checkpoint/recorded_layout.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/checkpoint/saved_shards.h"
#include "libtrain/checkpoint/view.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/build_info.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/run_tokenizer.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/engine/start_path.h"
#include "libtrain/plan/blocks/adapter.h"
#include "libtrain/plan/spec/conditions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

namespace trainyard::engine {

namespace {

std::string version_text(const nlohmann::json& j) { return j.is_string() ? j.get<std::string>() : j.dump(); }

// The view can be derived, so a checkpoint is taken without it. It is written again only in the folder that this run
// holds.
void mend_view(const checkpoint::Reader& reader, const std::string& own) {
  if (reader.view_problem().empty()) return;
  std::error_code error;
  if (!std::filesystem::equivalent(base::parent_of(reader.path()), own, error)) {
    base::log_warning("{}: the checkpoint is taken without it; make it anew with inspect --make-view {}",
                      reader.view_problem(), reader.path());
    return;
  }
  try {
    checkpoint::make_view(reader.path());
    base::log_warning("{}: it is made anew from the rank files", reader.view_problem());
  } catch (const base::Error& e) {
    base::log_warning("{}: the checkpoint is taken without it; it cannot be made anew: {}", reader.view_problem(),
                      e.what());
  }
}

void report_changes(const checkpoint::RunState& was, const RunSetup& setup) {
  const auto& c = setup.config;
  const auto& now = setup.plan;
  const auto layout = checkpoint::recorded_layout(was);
  const auto report = [](const char* what, const std::string& before, const std::string& now) {
    if (before != now) base::log_info("resuming with {} {} (the checkpoint was written with {})", what, now, before);
  };
  report("dtype", base::name_of(was.dtype), base::name_of(c.dtype));
  report("moment-dtype", base::name_of(was.optimizer.dtype), base::name_of(c.moment_dtype));
  report("gradient-sums", base::name_of(layout.gradient_sums), base::name_of(c.gradient_sums));
  report("device", was.device_kind, c.device);
  if (was.device_kind != c.device)
    base::log_warning("another kind of device rounds differently: losses will not be bit-identical");
  report("instruction set", was.isa, instructions_of(c.dtype));
  if (was.isa != instructions_of(c.dtype))
    base::log_warning("another instruction set rounds differently: losses will not be bit-identical");
  const auto versions = build_versions();
  for (const auto& [name, version] : versions.items())
    if (was.versions.is_object() && was.versions.contains(name))
      report(name.c_str(), version_text(was.versions[name]), version_text(version));
  const auto report_number = [&](const char* what, std::int64_t before, std::int64_t now) {
    report(what, fmt::format("{}", before), fmt::format("{}", now));
  };
  if (layout.ranks) report_number("ranks", *layout.ranks, now.topology.world());
  report_number("tensor ranks", layout.tensor, now.tensor);
  if (layout.tensor != now.tensor && now.device == base::DeviceKind::cuda && now.model.lanes == 1)
    base::log_warning(
        "with one lane a GPU library adds up, and its rounding depends on the number of tensor ranks: losses will not "
        "be bit-identical");
  report_number("expert-parallel ranks", layout.expert_parallel, now.expert_parallel);
  report_number("pipeline stages", layout.pipeline, now.pipeline);
  const bool lanes_are_given = c.lanes > 0 && !c.from_plan.decides_lanes;
  if (!lanes_are_given && c.from_plan.lanes > 0 && c.from_plan.lanes != now.model.lanes)
    base::log_info("resuming with the run's {} lanes; {} says {} (to use its value: $lanes {} $change model)",
                   now.model.lanes, c.plan, c.from_plan.lanes, c.from_plan.lanes);
  if (layout.zero) report_number("ZeRO stage", *layout.zero, c.zero);
  report_number("zero-group", layout.zero_group, now.zero_group);
  const auto& rule = setup.step.loss_scale;
  const auto before = was.loss_scale ? fmt::format("{}", was.loss_scale->scale) : "none";
  if (!rule.scales() || !was.loss_scale || rule.kind == LossScaleRule::Kind::fixed)
    report("loss-scale", before, rule.scales() ? fmt::format("{}", rule.first) : "none");
  else if (rule.first != was.loss_scale->scale)
    base::log_info(
        "the loss scale goes on at {} from the checkpoint, not at {}; of $loss-scale {} the window and the "
        "hysteresis are used",
        was.loss_scale->scale, rule.first, text_of(rule));
}

// Reads elements [part.begin, part.end) of a rank's shard into memory of the store, or for the disk into `to`.
class ShardReading {
 public:
  ShardReading(Trainer& trainer, checkpoint::Reader& reader, checkpoint::ReadSums& sums)
      : context_(trainer.context()), exec_(trainer.compute()), reader_(reader), sums_(sums) {}

  void read(const checkpoint::Kind& kind, int u, plan::ShardRange part, base::View to) {
    const auto count = part.end - part.begin;
    const bool is_narrow = base::is_narrow(to.dtype), stages = to.device.kind == base::DeviceKind::cuda || is_narrow;
    if (stages) staged_.resize(base::size(count));
    auto* out = stages ? staged_.data() : to.ptr<float>();
    const checkpoint::PartOfShard range{context_.flat_group(u), context_.world.topology, context_.world.rank,
                                        part.begin, count};
    reader_.read_range(kind, range, out);
    if (!base::at(context_.set.borrowed, u)) sums_.add(kind, range, out);
    if (!stages) return;
    auto from = base::View::of(out, {count});
    if (is_narrow && !exec_.on_gpu()) return base::from_f32(to.dtype, out, count, to.data);
    if (is_narrow) {
      narrow_.resize(base::size(count * base::size_of(to.dtype)));
      base::from_f32(to.dtype, out, count, narrow_.data());
      from = {narrow_.data(), to.dtype, {count}};
    }
    tensor::copy(exec_, from, to);
    exec_.synchronize();
  }
  // Masters that are kept as remainders.
  void read_masters(int u, params::Masters& masters) {
    const auto shard = context_.layout(u).shard;
    std::vector<float> values(base::size(shard));
    const auto view = base::View::of(values.data(), {shard});
    read(checkpoint::Kind::master, u, {0, shard}, view);
    masters.write(u, 0, view);
    exec_.synchronize();
  }
  // What is on disk is read in tiles.
  void read_to_disk(const checkpoint::Kind& kind, int u, plan::Held held, std::size_t state) {
    auto& disk = *context_.offloaded;
    const auto shard = context_.layout(u).shard;
    const auto dtype = base::at(disk.plan().extents(), disk.plan().find(u, held, state)).dtype;
    for (std::int64_t first = 0; first < shard; first += disk.tile_elements()) {
      const auto count = std::min(disk.tile_elements(), shard - first);
      tile_.resize(base::size(count * base::size_of(dtype)));
      const base::View tile(tile_.data(), dtype, {count});
      read(kind, u, {first, first + count}, tile);
      disk.write(u, held, state, first, tile);
    }
  }

 private:
  params::StoreContext& context_;
  tensor::Exec& exec_;
  checkpoint::Reader& reader_;
  checkpoint::ReadSums& sums_;
  std::vector<float> staged_;  // if the store is not in host memory, or is narrow
  std::vector<char> narrow_;   // the same, rounded, on its way to a GPU
  std::vector<std::byte> tile_;
};

void read_shards(const Start& start, std::uint64_t seed, Trainer& trainer, checkpoint::Reader& reader,
                 checkpoint::ReadSums& sums) {
  auto& context = trainer.context();
  auto& states = trainer.store().states();
  auto& exec = trainer.compute();
  ShardReading reading(trainer, reader, sums);
  for (int u = 0; u < context.flat_groups(); ++u) {
    const plan::ShardRange all{0, context.layout(u).shard};
    const auto held = states.held_of_master();
    if (start.weights_only && plan::is_adapter(context.flat_group(u)) &&
        !reader.holds(context.flat_group(u))) {  // adapters beside weights that had none
      trainer.store().initialize(seed, u);
      continue;
    }
    if (states.masters().is_narrow_and_frozen(u)) {
      reading.read(checkpoint::Kind::master, u, all, trainer.store().weights().own_shard(u));
      continue;
    }
    if (context.is_offloaded(u, held)) reading.read_to_disk(checkpoint::Kind::master, u, held, 0);
    else if (states.masters().are_f32()) reading.read(checkpoint::Kind::master, u, all, states.master_shard(u));
    else reading.read_masters(u, states.masters());
    for (std::size_t s = 0; s < states.kind().element_states(); ++s) {
      const auto kind = checkpoint::Kind::state(states.kind().states[s].name);
      const bool on_disk = context.is_offloaded(u, plan::Held::state, s);
      if (on_disk && start.weights_only) context.offloaded->clear(u, plan::Held::state, s);
      else if (on_disk) reading.read_to_disk(kind, u, plan::Held::state, s);
      else if (context.is_frozen(u)) continue;
      else if (start.weights_only) tensor::clear(exec, states.state_shard(s, u));
      else reading.read(kind, u, all, states.state_shard(s, u));
    }
  }
}

// States of rows and columns: every rank that holds a part of a parameter reads them whole.
void read_factored_states(const Start& start, Trainer& trainer, checkpoint::Reader& reader,
                          checkpoint::ReadSums& sums) {
  auto& context = trainer.context();
  auto& states = trainer.store().states();
  auto& exec = trainer.compute();
  const auto& kind = states.kind();
  for (int u = 0; u < context.flat_groups(); ++u) {
    const auto& flat_group = context.flat_group(u);
    std::vector<bool> counted(flat_group.parameters.size());
    if (!base::at(context.set.borrowed, u))
      checkpoint::for_each_begun(flat_group, context.layout(u), context.world.topology, context.world.rank,
                                 [&](std::size_t p) { counted[p] = true; });
    for (std::size_t s = kind.element_states(); s < kind.states.size(); ++s)
      for (std::size_t p = 0; p < flat_group.parameters.size(); ++p) {
        const auto to = states.factored_state(s, u, p);
        if (start.weights_only) {
          tensor::clear(exec, to);
          continue;
        }
        const auto of = checkpoint::Kind::state(kind.states[s].name);
        const auto values = reader.read_tensor(of, flat_group.parameters[p]);
        if (std::ssize(values) != to.count())  // the checkpoint is another one than when it was chosen
          throw base::InputError(fmt::format("{}: {} of {} has {} numbers, not {}", reader.path(), of.name(),
                                             flat_group.parameters[p].name, values.size(), to.count()),
                                 "restore the checkpoint from a copy");
        if (counted[p]) sums.add(of, flat_group.parameters[p].name, 0, to.count(), values.data());
        tensor::copy(exec, base::ConstView::of(values.data(), {to.count()}), to);
        exec.synchronize();
      }
  }
}

// Weights know tokens by number, so tokens of another tokenizer are other text to them, even if it has as many tokens.
void require_tokenizer(const checkpoint::RunState& state, const RunSetup& setup, const std::string& checkpoint) {
  auto c = setup.config;
  c.data = setup.sets.front().folder;
  const auto& index = setup.index;
  const auto tokenizer = tokenizer_of(state);
  if (!tokenizer || tokenizer->made(index)) {
    if (const auto other = other_ends_text(c.data, index, checkpoint, state); !other.empty())
      base::log_warning("{}", other);
    return;
  }
  const auto text = fmt::format("{}: its tokens mean something else to these weights",
                                other_tokenizer_text(c.data, index, checkpoint, *tokenizer));
  const auto changes = split_names(c.change);
  if (std::find(changes.begin(), changes.end(), changed_tokenizer) == changes.end())
    throw base::InputError(
        text, base::text("give a shard set that was made with the tokenizer of the training data; to train on with "
                         "the new tokenizer all the same: $change tokenizer"));
  base::log_warning("{}", text);
}

// The states of another optimizer are no start for this one, whatever --change allows.
void require_optimizer(const checkpoint::RunState& state, const plan::Plan& now, const std::string& checkpoint) {
  const auto ours = checkpoint::StoredOptimizer::of(*now.states().optimizer);
  if (state.optimizer.has_states_of(ours)) return;
  if (state.optimizer.name == ours.name)
    throw base::InputError(
        base::text("{} holds the states {}, and this run has {}: a moving average begins with a run", checkpoint,
                   fmt::join(state.optimizer.states, ", "), fmt::join(ours.states, ", ")),
        base::text("{}; or begin a new run with its weights: $init-from, with another $output",
                   now.ema > 0 ? base::text("leave $ema out") : base::text("give $ema as before")));
  throw base::InputError(
      base::text("{} holds the states of {} ({}), this run has $optimizer {} ({}): it cannot go on from there",
                 checkpoint, state.optimizer.name, fmt::join(state.optimizer.states, ", "), ours.name,
                 fmt::join(ours.states, ", ")),
      base::text("give $optimizer {}; or begin a new run with its weights: $init-from, with another $output",
                 state.optimizer.name));
}

// A run that begins with weights takes all of them, and all adapters beside them: without some, they are another model.
void require_all_tensors(const checkpoint::Reader& reader, const plan::ModelConfig& model) {
  const bool adapted = plan::has_adapter(reader.state().model);
  std::set<std::string_view> ours;
  const auto entries = checkpoint::parameters_of(model);
  for (const auto& p : entries) ours.insert(p.name);
  std::vector<std::string> left;
  for (const auto& p : reader.manifest().parameters)
    if (!ours.contains(p.name)) left.push_back(p.name);
  if (left.empty()) return;
  if (const auto adapter =
          std::ranges::find_if(left, [](const auto& name) { return name.find(".adapter.") != name.npos; });
      adapted && adapter != left.end())
    throw base::UsageError(
        fmt::format("{} has an adapter {}, and this run's model has none", reader.path(), *adapter),
        base::text("leave $model, $adapter and $adapter-on out; or add the adapters to the weights first: "
                   "reshard-checkpoint --merge"));
  throw base::InputError(
      fmt::format("{} has {}, and this run's model has no such tensor: {} of its weights would be left out",
                  reader.path(), left.front(), left.size()),
      base::text("leave $model out: the checkpoint has its own"));
}

Start choose(const RunSetup& setup, const std::vector<std::string>& damaged, RunFolder touch) {
  const auto& c = setup.config;
  const auto folder = checkpoints_folder(c.output);
  if (touch == RunFolder::held) checkpoint::remove_stale_partials(folder);
  Start start;
  if (c.resume == "never") {
    if (!checkpoint::list(folder).empty())
      throw base::UsageError(fmt::format("{} already holds checkpoints", folder),
                             base::text("go on with $resume auto, or choose another $output"));
  } else if (c.resume == "auto") {
    start.path = checkpoint::find_latest_whole(folder, checkpoint::Verify::metadata, damaged).path;
    if (const auto held = checkpoint::list(folder).size(); start.path.empty() && held > 0)
      throw base::InputError(
          fmt::format("{} holds {} checkpoint{}, none of them whole", folder, held, held == 1 ? "" : "s"),
          base::text("see inspect --verify; restore one from a copy, or begin anew with another $output"));
  } else {
    start.path = checkpoint_named(base::setting_name("resume"), c.resume);
  }
  if (start.path.empty()) require_unused(c.output);
  if (start.path.empty() && !c.init_from.empty())
    start = {checkpoint_named(base::setting_name("init-from"), c.init_from), true};
  if (start.path.empty() || start.weights_only) {
    require_counters(setup.plan.model, c, 0, 0);
    require_epochs(setup.sets, c, setup.plan.sequence, 0, 0);
  }
  if (start.path.empty()) return start;
  auto reader = checkpoint::reading({start.path}, [&] { return checkpoint::Reader(start.path); });
  if (touch == RunFolder::held) mend_view(reader, folder);
  if (start.weights_only) {
    require_all_tensors(reader, setup.plan.model);
    require_tokenizer(reader.state(), setup, start.path);
    return start;
  }
  if (reader.state().contents == checkpoint::Contents::model)
    throw base::InputError(
        fmt::format("{} holds the weights alone: no run can go on from it", start.path),
        c.resume == "auto"
            ? base::text("it does not belong there: move it away, and the run goes on from the checkpoint "
                         "before; to begin a new run with its weights, use $init-from")
            : base::text("begin a new run with its weights: $init-from, with another $output"));
  require_optimizer(reader.state(), setup.plan, start.path);
  require_same_run(reader.state().identity, setup.identity, split_names(c.change), start.path, c.model);
  if (c.alternate_sets && reader.state().identity.value("global_batch", nlohmann::json()) != c.global_batch)
    throw base::UsageError(
        base::text("$alternate-sets on keeps $global-batch as it is: turns of another size would read some sequences "
                   "twice, and others never"),
        base::text("the $global-batch of the checkpoint, or a new run with its weights: $init-from"));
  require_tokenizer(reader.state(), setup, start.path);
  report_changes(reader.state(), setup);
  start.step = reader.state().step;
  start.samples_seen = reader.state().samples_seen;
  start.tokens_seen = reader.state().tokens_seen;
  start.skipped_steps = reader.state().skipped_steps;
  start.loss_scale = reader.state().loss_scale;
  start.outlier_window = reader.state().outlier_window;
  require_counters(setup.plan.model, c, start.step, start.samples_seen);
  require_epochs(setup.sets, c, setup.plan.sequence, start.step, start.samples_seen);
  std::error_code error;
  start.own = std::filesystem::equivalent(start.path, folder + "/" + checkpoint::step_name(start.step), error);
  if (base::is_unreadable(error.value())) base::throw_cannot_read("look at", start.path, error.value());
  start.newest = start.own && checkpoint::list(folder).front().step == start.step;
  if (start.step < c.steps) return start;
  try {
    reader.verify_all();  // nothing is left to do, so nobody else will read it
  } catch (const base::Unreadable&) {
    throw;
  } catch (const base::InputError& e) {
    if (c.resume != "auto") throw;
    base::log_warning("checkpoint {} is skipped: {}", start.path, e.what());
    auto without = damaged;
    without.push_back(start.path);
    return choose(setup, without, touch);
  }
  return start;
}

}  // namespace

LanesOfRun lanes_of_run(const RunConfig& c) try {
  return or_stop_unread(c, [&]() -> LanesOfRun {
    std::vector<std::string> paths;
    if (c.resume == "auto" && !c.output.empty())
      for (const auto& held : checkpoint::list(checkpoints_folder(c.output))) paths.push_back(held.path);
    else if (resumes_named(c)) paths = checkpoints_named(base::setting_name("resume"), c.resume);
    const auto found = model_of_newest(paths);
    return found ? LanesOfRun{found->model.lanes, found->checkpoint} : LanesOfRun{};
  });
} catch (const base::InputError&) {  // no folder that could hold checkpoints
  return {};
}

void take_lanes(RunConfig& c, const LanesOfRun& of_run) {
  c.from_checkpoint.lanes = of_run.lanes;
  c.from_checkpoint.lanes_of = {plan::Lanes::of_the_run, of_run.checkpoint};
}

Start choose_start(const RunSetup& setup, const std::vector<std::string>& damaged, RunFolder folder) {
  const auto& c = setup.config;
  std::vector<std::string> places;  // where another run may save meanwhile
  if (resumes_named(c)) places.push_back(c.resume);
  if (std::error_code error; !c.init_from.empty() && std::filesystem::exists(c.init_from, error))
    places.push_back(c.init_from);
  return or_stop_unread(
      c, [&] { return checkpoint::looking_again(places, [&] { return choose(setup, damaged, folder); }); });
}

namespace {

nlohmann::json values_of_start(const Start& start, Trainer& trainer, World& world, const RunSetup& setup) {
  if (start.path.empty()) {
    trainer.store().initialize(setup.config.seed);
    return {};
  }
  auto& exec = trainer.communication();
  std::optional<checkpoint::Reader> reader;
  std::optional<checkpoint::ReadSums> sums;
  on_every_rank(world, exec, [&] {
    const auto read = [&] {
      reader.emplace(start.path, checkpoint::Reader::Check::as_needed);
      sums.emplace(*reader, trainer.compute().threads());
      read_shards(start, setup.config.seed, trainer, *reader, *sums);
      read_factored_states(start, trainer, *reader, *sums);
    };
    or_stop_unread(setup.config, [&] { checkpoint::reading({start.path}, read, checkpoint::Seen::listed); });
  });
  sums->add_ranks(*world.control, exec);
  on_every_rank(world, exec, [&] { sums->require(); });
  trainer.store().shards_loaded();
  const auto& state = reader->state();
  auto origin = nlohmann::json::object();
  for (const char* key : {"weights_from", "hugging_face"})
    if (state.provenance.is_object() && state.provenance.contains(key)) origin[key] = state.provenance[key];
  if (start.weights_only)
    origin["weights_from"] = fmt::format("{}, step {}", base::text_of_path(start.path), state.step);
  return origin;
}

}  // namespace

nlohmann::json load_start(const Start& start, Trainer& trainer, World& world, const RunSetup& setup) {
  nlohmann::json origin;
  const auto load = [&] { origin = values_of_start(start, trainer, world, setup); };
  if (auto* disk = trainer.context().offloaded) disk->outside_steps(load);
  else load();
  return origin;
}

}  // namespace trainyard::engine
