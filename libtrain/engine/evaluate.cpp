// All ranks agree on what is evaluated, then evaluate it in rotation.
#include "libtrain/engine/evaluate.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/checkpoint/named.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/comm/core_share.h"
#include "libtrain/comm/delayed.h"
#include "libtrain/data/masking.h"
#include "libtrain/data/mixture.h"
#include "libtrain/data/text_bytes.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/evaluator.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/place.h"
#include "libtrain/engine/run_tokenizer.h"
#include "libtrain/engine/run_windows.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/shared_folder.h"
#include "libtrain/engine/watch.h"
#include "libtrain/io/layout_file.h"
#include "libtrain/plan/data_use.h"
#include "libtrain/plan/evaluation.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/remedies.h"
#include "libtrain/plan/spec/objective.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

namespace trainyard::engine {

namespace {

// Accumulation steps between two gathers of losses, for each pipeline stage. They decide how many losses a progress
// line knows, and how far one rank may be ahead of another. The stages fill and empty once between two gathers.
constexpr std::int64_t rounds_a_stretch = 8;

std::string text_at(const nlohmann::json& object, const char* key, const std::string& otherwise) {
  return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>()
                                                                               : otherwise;
}

std::int64_t integer_of(const nlohmann::json& object, const char* key, std::int64_t otherwise) {
  return object.is_object() && object.contains(key) && object[key].is_number_integer() ? object[key].get<std::int64_t>()
                                                                                       : otherwise;
}

// Tokens are hidden as in the checkpoint's training. Weights that no run made record nothing about it.
void take_masking(RunConfig& r, const checkpoint::RunState& s, const std::string& checkpoint) {
  if (s.identity.empty()) return;
  const auto rate = s.identity.value("mask_rate", nlohmann::json()),
             words = s.identity.value("mask_words", nlohmann::json()),
             token = s.identity.value("mask_token", nlohmann::json());
  const auto refuse = [&](const char* name, const nlohmann::json& value, const std::string& legal) {
    throw base::InputError(
        fmt::format("{} says {} {}, expected {}", checkpoint, name, base::excerpt(value.dump()), legal),
        "the checkpoint is damaged");
  };
  if (!rate.is_number() || !(rate.get<double>() > 0 && rate.get<double>() <= 1))
    refuse("mask_rate", rate, "a number above 0 and up to 1");
  if (words != "on" && words != "off") refuse("mask_words", words, "on or off");
  if (!token.is_number_integer() || token.get<std::int64_t>() < 0 || token.get<std::int64_t>() >= s.model.vocabulary)
    refuse("mask_token", token, fmt::format("a token below {}", s.model.vocabulary));
  r.mask_rate = rate, r.mask_words = words, r.from_checkpoint.mask_token = token;
}

bool comes_from_checkpoint(const base::Field& f, const EvaluateConfig& c) {
  return f.has(base::FieldTrait::of_checkpoint) && !c.given.contains(f.name);
}

// The settings of `c` that the user gave; the others come from the run that wrote the checkpoint. Settings that concern
// training only keep their defaults.
RunConfig settings(const EvaluateConfig& c, const checkpoint::RunState& s, const std::string& checkpoint, int ranks) {
  RunConfig r;
  r.model = s.model.name;
  r.from_checkpoint.model = s.model;
  r.data = text_at(s.provenance, "data", "");
  r.micro_batch = integer_of(s.identity, "micro_batch", 1);
  r.document_mask = text_at(s.identity, "document_mask", "off");
  r.answers_only = s.identity.is_object() && s.identity.value("answers_only", nlohmann::json()) == true;
  r.dtype = base::traits_of(s.dtype).trains ? s.dtype : base::DType::f32;
  if (plan::objective_of(s.model) == plan::Objective::masked) take_masking(r, s, checkpoint);
  auto asked = c.run;
  auto ours = fields_of(r);
  for (const auto& f : fields_of(asked)) {
    const bool is_apart = f.name == "model" || f.name == "memory-limit";  // require_model, require_memory
    if (!is_apart && f.has(base::FieldTrait::evaluation) && !comes_from_checkpoint(f, c))
      base::field_named(ours, f.name, "an evaluation").set(f.get(), base::setting_name(f.name));
  }
  if (r.sequence == 0) r.sequence = integer_of(s.identity, "sequence", s.model.context);
  r.seed = s.seed;  // for the gates of experts, which draw lots for places in an evaluation, too
  r.from_plan = c.run.from_plan;
  if (c.run.from_plan.ranks > 0) r.recompute = c.run.recompute;  // the partition weighs layers by it
  constexpr std::int64_t most = 1 << 20;
  if (r.micro_batch < 1 || r.micro_batch > most)
    throw base::UsageError(base::text("$micro-batch {} must lie between 1 and {}", r.micro_batch, most),
                           base::text("$micro-batch 1 needs the least memory"));
  r.global_batch = r.micro_batch * std::max(1, ranks / (r.tensor * r.pipeline));  // one accumulation step
  r.steps = 1;
  r.output = std::string(".");  // nothing is written
  return r;
}

// The settings that decide which collectives an evaluation issues. What the user did not give comes from the
// checkpoint.
NamedSettings shared_settings(const EvaluateConfig& c) {
  NamedSettings settings{{"evaluate-split", c.split},
                         {"evaluate-sequences", fmt::format("{}", c.sequences)},
                         {"stream-weights", c.stream_weights ? "on" : "off"}};
  auto run = c.run;
  auto fields = fields_of(run);
  for (auto& [name, value] : shared_settings(c.run)) {
    const auto& f = base::field_named(fields, name, "an evaluation");
    if (f.has(base::FieldTrait::evaluation))
      settings.emplace_back(name, comes_from_checkpoint(f, c) ? "the checkpoint's" : value);
  }
  return settings;
}

void require_model(const EvaluateConfig& c, plan::ModelConfig trained, const std::string& checkpoint) {
  if (!c.given.contains("model")) return;
  auto given_model = c.run.from_plan.model && c.run.model == c.run.from_plan.model->name
                         ? *c.run.from_plan.model
                         : plan::load_model(c.run.model, io::read_layout_file);
  if (given_model.vocabulary == 0) given_model.vocabulary = trained.vocabulary;
  if (given_model.lanes == 0 || c.run.from_plan.decides_lanes)
    given_model.lanes = trained.lanes;  // the user did not ask for others
  const auto ours = plan::fields_of(trained), theirs = plan::fields_of(given_model);
  std::string differences;
  const auto shown = [](const base::Field& f) { return f.get().empty() ? "none" : base::shortened(f.get()); };
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (!plan::is_name(ours[i]) && ours[i].get() != theirs[i].get())
      differences += fmt::format("\n  {}: the checkpoint has {}, {} {}", ours[i].name, shown(ours[i]), c.run.model,
                                 shown(theirs[i]));
  if (!differences.empty())
    throw base::InputError(fmt::format("{} is of another model than {}:{}", checkpoint, c.run.model, differences),
                           "leave the model out: a checkpoint contains its own");
}

// Tokens must mean what they meant in training.
void require_tokens(const data::SetIndex& index, const checkpoint::RunState& s, const std::string& data,
                    const std::string& checkpoint) {
  const auto recorded = tokenizer_of(s);
  // Weights that no run made have the mask token that a run would take.
  auto mask = integer_of(s.identity, "mask_token", -1);
  if (s.identity.empty() && plan::objective_of(s.model) == plan::Objective::masked)
    mask = data::mask_token_of(data, index);
  const auto behind = mask == index.vocabulary ? 1 : 0;
  const char* hint = "give a shard set that was made with the tokenizer of the training data";
  if (recorded && !recorded->made(index))
    throw base::InputError(other_tokenizer_text(data, index, checkpoint, *recorded), hint);
  if (behind == 1 && index.vocabulary >= s.model.vocabulary)
    throw base::InputError(
        fmt::format("{} has a vocabulary of {} and no mask token, which gets the id {}; the model of {} has {}", data,
                    index.vocabulary, index.vocabulary, checkpoint, s.model.vocabulary),
        hint);
  if (index.vocabulary > s.model.vocabulary || (!recorded && index.vocabulary + behind != s.model.vocabulary))
    throw base::InputError(fmt::format("{} has a vocabulary of {}, the model of {} has {}", data, index.vocabulary,
                                       checkpoint, s.model.vocabulary),
                           hint);
}

plan::Residence residence(const EvaluateConfig& c) {
  return c.stream_weights ? plan::Residence::streamed : plan::Residence::kept;
}

// What makes an evaluation smaller that does not fit.
std::string way_to_fit(const EvaluateConfig& c, const plan::Plan& p, std::int64_t limit) {
  if (c.stream_weights)
    return base::text("more ranks with $pipeline-parallel, fewer $gathered-layers, or a shorter $sequence, need less");
  auto limited = p;
  limited.device_memory = limit;
  auto hint = plan::remedies(limited, plan::Pass::evaluate, "memory-limit");
  if (plan::largest_evaluation_memory(p).reserve < limit)
    hint += base::text("; more ranks with $pipeline-parallel or $zero 3, or a shorter $sequence, need less");
  const auto streamed = plan::largest_evaluation_memory(p, plan::Residence::streamed).total();
  if (streamed <= limit) hint += base::text("; $stream-weights would need {} and fits", base::size_text(streamed));
  return hint;
}

void require_memory(const EvaluateConfig& c, const plan::Plan& p) {
  if (c.run.memory_limit.empty()) return;
  const auto limit = base::parse_bytes(c.run.memory_limit, base::setting_name("memory-limit"));
  const auto need = plan::largest_evaluation_memory(p, residence(c)).total();
  if (need <= limit) return;
  auto hint = way_to_fit(c, p, limit);
  const auto& of_plan = c.run.from_plan.settings;
  if (std::find(of_plan.begin(), of_plan.end(), "memory-limit") != of_plan.end())
    hint += base::text("; {} sets $memory-limit, and flags override it", c.run.plan);
  throw base::InputError(base::text("a rank needs {} bytes to evaluate, $memory-limit {} allows {}: {} too many", need,
                                    c.run.memory_limit, limit, need - limit),
                         hint);
}

// Everything that is decided before memory is reserved.
struct Terms {
  std::string checkpoint;
  checkpoint::RunState state;
  RunConfig run;
  RunSetup setup;
  const std::vector<data::ShardEntry>* split = nullptr;
  std::int64_t sequences = 0;
};

void read_terms(Terms& t, const EvaluateConfig& c, int ranks, int fair_threads) {
  const checkpoint::Reader reader(t.checkpoint, checkpoint::Reader::Check::as_needed);
  t.state = reader.state();
  require_model(c, t.state.model, t.checkpoint);
  t.run = settings(c, t.state, t.checkpoint, ranks);
  t.run.from_checkpoint.lanes_of = {plan::Lanes::evaluated, t.checkpoint};
  if (t.run.data.empty())
    throw base::UsageError(base::text("$data is missing: the folder that shard-data made"),
                           fmt::format("{} does not say what it was trained on", t.checkpoint));
  const auto named = data::sets_of(t.run.data, base::setting_name("data"));
  if (named.size() > 1)
    throw base::UsageError(base::text("an evaluation reads one set, and $data is {}", base::one_line(t.run.data)),
                           base::text("$data {}", base::one_line(data::name_of(named.front()))));
  const auto& folder = named.front().folder;
  require_tokens(data::read_index(folder), t.state, folder, t.checkpoint);
  t.setup = make_setup(t.run, ranks, base::team_threads(t.run.threads, fair_threads));
  require_memory(c, t.setup.plan);
  if (c.split != "train" && c.split != "validation")
    throw base::UsageError(base::text("$evaluate-split {} is not known", c.split), "use validation or train");
  t.split = c.split == "train" ? &t.setup.index.train : &t.setup.index.validation;
  if (t.split->empty())
    throw base::InputError(
        fmt::format("{} has no {} split", t.run.data, c.split),
        c.split == "train"
            ? "make the shards again with shard-data"
            : base::text("take $evaluate-split train, or make shards with shard-data --validation 0.05"));
}

// Rank 0 reads first and finds what is wrong. Only then do the other ranks read the same files.
void agree_on_terms(Terms& t, const EvaluateConfig& c, World& world, tensor::Exec& exec) {
  const int fair_threads = comm::threads_of_rank(*world.control, exec);
  report_threads(c.run.threads, fair_threads, world);
  const auto print = [&] {
    auto decided = t.setup.identity;
    decided["stages"] = t.setup.plan.stages.boundaries;
    return hash_of(decided) + t.checkpoint;
  };
  const auto found = on_rank_zero(world, exec, [&] {
    return checkpoint::looking_again({c.checkpoint}, [&] {
      t.checkpoint = checkpoint::named_checkpoint(c.checkpoint);
      const auto read = [&] {
        checkpoint::Reader whole(t.checkpoint);
        read_terms(t, c, world.size, fair_threads);
        return print();
      };
      return checkpoint::reading({t.checkpoint}, read, checkpoint::Seen::listed);
    });
  });
  t.checkpoint = found.substr(16);
  if (world.rank == 0) warn_of_edited_plan(t.setup);
  require_same_checkpoint(t.checkpoint, world, exec);
  const auto files = on_rank_zero(world, exec, [&] { return file_settings(t.run); });
  on_every_rank(world, exec, [&] {
    if (world.rank == 0) return;
    read_terms(t, c, world.size, fair_threads);
    if (print() != found) throw_other_content("checkpoint, configuration or data index", t.run, files);
  });
  if (world.rank != 0) return;
  if (const auto other = other_end_text(t.setup.sets.front().folder, t.setup.index, t.checkpoint, t.state);
      !other.empty())
    base::log_warning("{}", other);
}

std::int64_t windows_of(const EvaluateConfig& c, const Terms& t) {
  const auto sequence = t.setup.plan.sequence,
             there = plan::data_use(tokens_of_shards(t.setup.sets.front(), *t.split), sequence).windows;
  if (c.sequences < 0)
    throw base::UsageError(base::text("$evaluate-sequences {} must not be negative", c.sequences), "0 takes all");
  if (there == 0)
    throw base::InputError(
        fmt::format("the {} split of {} holds no window of {} tokens", c.split, t.run.data, sequence + 1),
        base::text("give more text, or a shorter $sequence"));
  if (c.sequences > there)
    throw base::InputError(
        base::text("the {} split of {} holds {} sequences of {} tokens, $evaluate-sequences asks for {}", c.split,
                   t.run.data, there, sequence, c.sequences),
        "0 takes all that there are");
  return c.sequences > 0 ? c.sequences : there;
}

// Counts the text behind the targets of each micro-batch, on the host and from windows of its own.
class TextCounter {
 public:
  TextCounter(const std::string& folder, const data::SetIndex& index, data::WindowDataset& windows)
      : text_(folder, index), windows_(windows), i32_(4 * base::size(windows.sequence())),
        weights_(base::size(windows.sequence())) {}
  const std::string& why_not() const { return text_.why_not(); }
  // Of windows [first, end).
  data::TextBytes::Count count(std::int64_t first, std::int64_t end) {
    const auto T = windows_.sequence();
    const data::WindowPtrs window{i32_.data(), i32_.data() + T, i32_.data() + 2 * T, i32_.data() + 3 * T,
                                  weights_.data()};
    data::TextBytes::Count count;
    for (auto w = first; w < end; ++w) {
      windows_.fill(static_cast<std::uint64_t>(w), window);
      text_.add(window, T, count);
    }
    return count;
  }

 private:
  data::TextBytes text_;
  data::WindowDataset& windows_;
  std::vector<std::int32_t> i32_;
  std::vector<std::uint8_t> weights_;
};

Evaluation result_of(const EvaluateConfig& c, const Terms& t, const MicroLoss& total) {
  if (total.targets == 0)
    throw nothing_counts(fmt::format("{} of {}", base::counted(t.sequences, "sequence"), t.run.data),
                         counted_of(t.setup));
  if (!std::isfinite(total.mean()))
    throw base::CheckError(fmt::format("the loss of {} on {} is not finite: {}", t.checkpoint, t.run.data,
                                       base::number_text(total.mean())),
                           "inspect the checkpoint: its norms show which tensor went wrong");
  Evaluation e;
  e.checkpoint = t.checkpoint, e.step = t.state.step;
  e.data = t.run.data, e.split = c.split, e.dtype = base::name_of(t.run.dtype), e.document_mask = t.run.document_mask;
  e.objective = plan::name_of(plan::objective_of(t.state.model));
  if (t.setup.masking) e.mask_rate = t.setup.masking->rate, e.mask_words = t.run.mask_words == "on" ? "on" : "off";
  e.sequence = t.setup.plan.sequence, e.sequences = t.sequences;
  for (const auto tokens : tokens_of_shards(t.setup.sets.front(), *t.split)) e.split_tokens += tokens;
  e.tokens = static_cast<std::int64_t>(total.targets);
  e.bytes = static_cast<std::int64_t>(total.bytes), e.unmeasured = static_cast<std::int64_t>(total.unmeasured);
  e.loss = total.mean();
  return e;
}

void report_streaming(const std::string& checkpoint, const StreamedWeights& bytes, const World& world) {
  if (world.rank == 0)
    base::log_info("weights are streamed: {} of {} are read in the first accumulation step, {} in each later one",
                   base::size_text(bytes.first_step, base::Sizes::rounded), checkpoint,
                   base::size_text(bytes.later_step, base::Sizes::rounded));
}

// While it lives, the watchdog asks the evaluator what it is doing.
class WhatIsDone {
 public:
  WhatIsDone(comm::Watchdog* watchdog, const Evaluator& evaluator) : watchdog_(watchdog) {
    if (watchdog_ != nullptr) watchdog_->ask_what_is_done([&evaluator] { return evaluator.doing(); });
  }
  ~WhatIsDone() {
    if (watchdog_ != nullptr) watchdog_->ask_what_is_done({});
  }
  WhatIsDone(const WhatIsDone&) = delete;

 private:
  comm::Watchdog* watchdog_;
};

}  // namespace

const std::set<std::string>& evaluation_settings() {
  static const auto names = [] {
    RunConfig config;
    std::set<std::string> of_evaluations;
    for (const auto& f : fields_of(config))
      if (f.has(base::FieldTrait::evaluation)) of_evaluations.insert(f.name);
    return of_evaluations;
  }();
  return names;
}

double Evaluation::perplexity() const { return std::exp(loss); }

double Evaluation::bits_per_byte() const {
  if (unmeasured > 0 || bytes == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss * static_cast<double>(tokens) / (std::numbers::ln2 * static_cast<double>(bytes));
}

Evaluation evaluate(const EvaluateConfig& asked, World& world, const EvaluateWatch& watch) {
  auto config = asked;
  const auto watchdog =
      watch_peers(world, *world.communication, config.run.hang_timeout, comm::end_job_on_hang({}, world.rank));
  require_same(shared_settings(config), world, *world.communication);
  const auto place = agree_on_device(config.run, world, *world.communication);
  const auto device = place.device;
  if (device.kind == base::DeviceKind::cuda) move_to_gpu(config.run, world, place);
  auto& exec = *world.communication;
  if (config.run.collective_delay > 0)
    world.replace_groups([&](auto group) { return comm::delayed(std::move(group), config.run.collective_delay); });
  Terms t;
  agree_on_terms(t, config, world, exec);
  if (device.kind == base::DeviceKind::cpu) require_same_instructions(t.setup.plan.dtype, world, exec);
  t.setup.step.device = device;
  on_every_rank(world, exec, [&] { require_layout(world, t.setup.plan); });
  on_every_rank(world, exec, [&] { join_neighbours(world, t.setup.plan.virtual_stages, device); });
  watch_calls(watchdog.get(), world, Calls::of_a_start);
  const auto shape = t.setup.plan.micro();
  const bool masked = t.setup.masking.has_value();

  std::optional<data::WindowDataset> windows, text_windows;
  std::optional<TextCounter> text;
  std::optional<Batches> batches;
  std::optional<Evaluator> evaluator;
  on_every_rank(world, exec, [&] {
    t.sequences = windows_of(config, t);
    const auto& set = t.setup.sets.front();
    for (auto* each : {&windows, &text_windows})
      each->emplace(set.folder, t.setup.index, *t.split,
                    data::WindowDataset::Windows{.sequence = shape.sequence,
                                                 .mask = t.setup.mask,
                                                 .order = data::Order::as_stored,
                                                 .seed = 0,
                                                 .field = set.field,
                                                 .value = set.value,
                                                 .answers_only = t.run.answers_only});
    if (t.setup.masking) windows->hide(*t.setup.masking);
    if (!masked) text.emplace(set.folder, t.setup.index, *text_windows);
    batches.emplace(*windows, &*windows, t.setup.plan.batch(), world.reduction_position());
    evaluator.emplace(t.setup.plan, t.setup.step, world, *batches, residence(config));
  });
  evaluator->load(t.checkpoint);
  if (config.stream_weights) report_streaming(t.checkpoint, evaluator->streamed(), world);
  watch_calls(watchdog.get(), world, Calls::of_steps);
  const WhatIsDone reported(watchdog.get(), *evaluator);

  MicroLoss total;
  const auto report = [&](std::int64_t done) {
    if (world.rank == 0 && watch) watch(done, t.sequences, total.mean());
  };
  const auto micros = (t.sequences + shape.batch - 1) / shape.batch,
             stretch = rounds_a_stretch * world.topology.size(plan::Axes{plan::Axis::data, plan::Axis::pipe});
  for (std::int64_t first = 0; first < micros; first += stretch)
    or_fail(world, [&] {
      const auto end = std::min(micros, first + stretch);
      if (watchdog) watchdog->set_step(first / stretch + 1);
      const EvaluateMicros on_stage = [&](std::span<const std::int64_t> mine, std::span<MicroLoss> losses) {
        evaluator->evaluate(mine, losses, t.sequences, [&](std::size_t at) {
          const auto begin = mine[at] * shape.batch, behind = begin + shape.batch;
          if (evaluator->finds_losses() && masked) {
            losses[at].unmeasured = losses[at].targets;
          } else if (evaluator->finds_losses()) {
            const auto count = text->count(begin, std::min(t.sequences, behind));
            losses[at].bytes = static_cast<double>(count.bytes),
            losses[at].unmeasured = static_cast<double>(count.unmeasured);
          }
          if (mine[at] + 1 < end) report(behind);
        });
      };
      reduce_losses(world, evaluator->communication(), first, end, on_stage, total);
      report(std::min(t.sequences, end * shape.batch));
    });
  Evaluation result;
  on_every_rank(world, evaluator->communication(), [&] { result = result_of(config, t, total); });
  if (masked) result.unmeasured_why = "hidden tokens are predicted from both sides";
  else if (result.unmeasured > 0)
    result.unmeasured_why =
        text->why_not().empty() ? "the tokenizer has no token for a part of the text" : text->why_not();
  result.predicted = evaluator->memory().predicted();
  result.measured = evaluator->memory().measured();
  if (config.stream_weights) result.streamed = evaluator->streamed();
  return result;
}

}  // namespace trainyard::engine
