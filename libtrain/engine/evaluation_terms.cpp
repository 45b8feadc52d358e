// What an evaluation needs of its checkpoint, its settings and its set, agreed between ranks.
#include "libtrain/engine/evaluation_terms.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/log.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/named.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/comm/core_share.h"
#include "libtrain/data/masking.h"
#include "libtrain/data/mixture.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/run_tokenizer.h"
#include "libtrain/engine/run_windows.h"
#include "libtrain/engine/shared_folder.h"
#include "libtrain/engine/tasks.h"
#include "libtrain/io/layout_file.h"
#include "libtrain/plan/data_use.h"
#include "libtrain/plan/evaluation.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/remedies.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/objective.h"

#include <algorithm>
#include <array>

namespace trainyard::engine {

namespace {

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
  const bool encoder = plan::has_encoder(s.model), masked = plan::objective_of(s.model) == plan::Objective::masked;
  if (s.identity.empty() || (!encoder && !masked)) return;
  const auto rate = s.identity.value("mask_rate", nlohmann::json()),
             words = s.identity.value("mask_words", nlohmann::json()),
             token = s.identity.value("mask_token", nlohmann::json()),
             span = s.identity.value("mask_span", nlohmann::json());
  const auto objective = text_at(s.identity, "objective", "");
  if (encoder && objective == name_of(Task::pairs)) return;
  const auto refuse = [&](const char* name, const nlohmann::json& value, const std::string& legal) {
    throw base::InputError(
        fmt::format("{} says {} {}, expected {}", checkpoint, name, base::excerpt(value.dump()), legal),
        "the checkpoint is damaged");
  };
  if (!rate.is_number() || !(rate.get<double>() > 0 && rate.get<double>() <= 1))
    refuse("mask_rate", rate, "a number above 0 and up to 1");
  if (encoder) {
    const std::array restores{Task::spans, Task::infilling, Task::infilling_permuted};
    if (std::none_of(restores.begin(), restores.end(), [&](Task task) { return objective == name_of(task); }))
      refuse("objective", objective, "pairs, spans, infilling or infilling-permuted");
    if (!span.is_number() || !(span.get<double>() >= 0 && span.get<double>() <= most_mask_span))
      refuse("mask_span", span, fmt::format("a number up to {}", most_mask_span));
    r.objective = objective, r.mask_rate = rate, r.mask_span = span;
    if (objective == name_of(Task::spans)) return;
  } else if (words != "on" && words != "off") {
    refuse("mask_words", words, "on or off");
  }
  if (!token.is_number_integer() || token.get<std::int64_t>() < 0 || token.get<std::int64_t>() >= s.model.vocabulary)
    refuse("mask_token", token, fmt::format("a token below {}", s.model.vocabulary));
  r.mask_rate = rate, r.from_checkpoint.mask_token = token;
  if (masked) r.mask_words = words;
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
  take_masking(r, s, checkpoint);
  auto asked = c.run;
  auto ours = fields_of(r);
  for (const auto& f : fields_of(asked)) {
    const bool is_apart = f.name == "model" || f.name == "memory-limit";  // require_model, require_memory
    if (!is_apart && f.has(base::FieldTrait::evaluation) && !comes_from_checkpoint(f, c))
      base::field_named(ours, f.name, "an evaluation").set(f.get(), base::setting_name(f.name));
  }
  if (r.sequence == 0) r.sequence = integer_of(s.identity, "sequence", s.model.context);
  if (r.source_sequence == 0 && plan::has_encoder(s.model))
    r.source_sequence = integer_of(s.identity, "source_sequence", r.sequence);
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
  if (index.vocabulary > s.model.vocabulary)
    throw base::InputError(fmt::format("{} has a vocabulary of {}, the model of {} has {}", data, index.vocabulary,
                                       checkpoint, s.model.vocabulary),
                           hint);
}

// A model often has rows for more tokens than its tokenizer, but here nothing says which tokenizer it has.
std::string fewer_tokens_text(const EvaluationTerms& t) {
  const auto& index = t.setup.index;
  if (tokenizer_of(t.state) || index.vocabulary + 1 >= t.state.model.vocabulary) return {};
  return fmt::format(
      "{} does not record its tokenizer, and has {} tokens where {} has {}: the loss means nothing unless "
      "that is the model's tokenizer",
      t.checkpoint, t.state.model.vocabulary, t.setup.sets.front().folder, index.vocabulary);
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

// As a validation during training does. Returns the names of sets that are left out.
std::vector<std::string> leave_out_sets_without(std::vector<data::NamedSet>& sets, const std::string& split) {
  std::vector<data::NamedSet> with;
  std::vector<std::string> without;
  for (const auto& set : sets) {
    const RunSet read{set.folder, {}, data::read_index(set.folder), set.field, set.value};
    require_field(read);
    if (has_split(read, split == "train" ? read.index.train : read.index.validation)) with.push_back(set);
    else without.push_back(text_of(read));
  }
  if (with.empty()) return {};
  sets = std::move(with);
  return without;
}

// The sequences of the set to evaluate.
std::int64_t windows_of(const EvaluateConfig& c, const EvaluationTerms& t) {
  const auto& set = t.setup.sets.front();
  const auto there = use_of(set, *t.split, reading_of(t.setup)).windows;
  if (c.sequences < 0)
    throw base::UsageError(base::text("$evaluate-sequences {} must not be negative", c.sequences), "0 takes all");
  if (there == 0)
    throw base::InputError(
        set.task == Task::pairs
            ? fmt::format("the {} split of {} holds no pair that fits", c.split, base::one_line(t.run.data))
            : fmt::format("the {} split of {} holds no window of {} tokens", c.split, base::one_line(t.run.data),
                          tokens_of_text(set, reading_of(t.setup)) + 1),
        base::text("give a shorter $sequence, or a set with more such text: shard-data --validation 0.1, or shard-data "
                   "--split lines of a text with few empty lines"));
  if (c.sequences > there)
    throw base::InputError(
        base::text("the {} split of {} holds {} sequences of {} tokens, $evaluate-sequences asks for {}", c.split,
                   base::one_line(t.run.data), there, t.setup.plan.sequence, c.sequences),
        "0 takes all that there are");
  return c.sequences > 0 ? c.sequences : there;
}

void read_terms(EvaluationTerms& t, const EvaluateConfig& c, int ranks, int fair_threads) {
  const checkpoint::Reader reader(t.checkpoint, checkpoint::Reader::Check::as_needed);
  t.state = reader.state();
  require_model(c, t.state.model, t.checkpoint);
  t.run = settings(c, t.state, t.checkpoint, ranks);
  t.run.from_checkpoint.lanes_of = {plan::Lanes::evaluated, t.checkpoint};
  if (t.run.data.empty())
    throw base::UsageError(base::text("$data is missing: the folder that shard-data made"),
                           fmt::format("{} does not say what it was trained on", t.checkpoint));
  auto named = data::sets_of(t.run.data, base::setting_name("data"));
  const bool several = named.size() > 1;
  if (several) t.left_out = leave_out_sets_without(named, c.split);
  t.sets = named.size();
  if (several) t.run.data = data::name_of(named.at(t.set));
  const auto& folder = named.at(t.set).folder;
  require_tokens(data::read_index(folder), t.state, folder, t.checkpoint);
  t.setup = make_setup(t.run, ranks, base::team_threads(t.run.threads, fair_threads));
  require_memory(c, t.setup.plan);
  if (c.split != "train" && c.split != "validation")
    throw base::UsageError(base::text("$evaluate-split {} is not known", c.split), "use validation or train");
  t.split = c.split == "train" ? &t.setup.index.train : &t.setup.index.validation;
  if (!has_split(t.setup.sets.front(), *t.split))
    throw base::InputError(
        fmt::format("{} has no {} split", base::one_line(t.run.data), c.split),
        c.split == "train"
            ? "make the shards again with shard-data"
            : base::text("take $evaluate-split train, or make shards with shard-data --validation 0.05"));
  t.sequences = windows_of(c, t);
}

}  // namespace

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

plan::Residence residence(const EvaluateConfig& c) {
  return c.stream_weights ? plan::Residence::streamed : plan::Residence::kept;
}

void agree_on_terms(EvaluationTerms& t, const EvaluateConfig& c, World& world, tensor::Exec& exec) {
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
  if (t.set == 0 && !t.left_out.empty())
    base::log_warning("{} no {} split: left out",
                      base::listed(t.left_out, "and") + (t.left_out.size() == 1 ? " has" : " have"), c.split);
  if (const auto other = other_ends_text(t.setup.sets.front().folder, t.setup.index, t.checkpoint, t.state);
      !other.empty())
    base::log_warning("{}", other);
  if (const auto few = fewer_tokens_text(t); !few.empty()) base::log_warning("{}", few);
}

}  // namespace trainyard::engine
