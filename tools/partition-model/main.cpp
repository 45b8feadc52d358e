// partition-model: predicts what a model needs on each rank and sends in each step, before a run starts.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/log.h"
#include "libtrain/base/owned.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/io/layout_file.h"
#include "libtrain/plan/auto_setting.h"
#include "libtrain/plan/data_use.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/model_file/adapter_setting.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/offload_choice.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/recompute_choice.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/lanes.h"
#include "libtrain/plan/spec/objective.h"
#include "libtrain/plan/spec/presets.h"
#include "libtrain/plan/stage_table.h"
#include "tools/common/checks.h"
#include "tools/common/config_flags.h"
#include "tools/common/plan_text.h"
#include "tools/common/program.h"
#include "tools/partition-model/machine_step.h"
#include "tools/partition-model/options.h"
#include "tools/partition-model/pictures.h"
#include "tools/partition-model/saved_model.h"
#include "tools/partition-model/search.h"
#include "tools/partition-model/times.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace trainyard;
using tools::Options;
using tools::Times;

namespace {

// Facts from the index of a shard set. train checks the rest of the index.
struct SetFacts {
  std::int64_t vocabulary = 0;
  bool pairs = false;
  std::vector<std::int64_t> shard_tokens;  // of the training split
};

// Reads the facts of a shard set; empty without a set.
SetFacts facts_of(const std::string& set) {
  if (set.empty()) return {};
  const auto path = set + "/index.json";
  if (!base::exists(path))
    throw base::InputError(
        fmt::format("{} is not there", base::one_line(path)),
        set.find(',') != std::string::npos
            ? "of sets that are mixed, name one: all have the same tokenizer"
            : "--data names a folder that shard-data made; for a set that another program wrote, which "
              "train reads all the same, say --vocabulary N");
  const auto index = base::parse_json<nlohmann::json>(base::read_file(path, base::largest_description), path);
  base::SortedJsonObject object(index, path);
  if (const auto format = object.text("format"); !format.starts_with("trainyard.shards/"))
    throw base::InputError(fmt::format("{}: format is {}, expected that of a shard set", path, base::excerpt(format)),
                           "--data names a folder that shard-data made");
  SetFacts facts{object.integer("vocabulary", plan::ranges::vocabulary.low, plan::ranges::vocabulary.high), false, {}};
  facts.pairs = index.contains("pairs") && index["pairs"] == true;
  if (!index.contains("train") || !index["train"].is_array()) return facts;
  for (const auto& shard : index["train"]) {
    const auto* tokens = shard.is_object() && shard.contains("tokens") ? &shard["tokens"] : nullptr;
    if (tokens != nullptr && tokens->is_number_unsigned() && tokens->get<std::uint64_t>() < std::uint64_t{1} << 40)
      facts.shard_tokens.push_back(tokens->get<std::int64_t>());
  }
  return facts;
}

// Without shards, the vocabulary is the one of published models of this kind.
struct Published {
  std::int64_t vocabulary;
  std::string name;
};
Published published(const plan::ModelConfig& model) {
  if (const auto vocabulary = plan::published_vocabulary(model.name); vocabulary > 0) return {vocabulary, model.name};
  if (model.head == plan::HeadForm::masked) return {plan::published_vocabulary("bert-base"), "BERT"};
  if (plan::has_relative_positions(model)) return {plan::published_vocabulary("t5-base"), "T5"};
  return model.positions == plan::Positions::rotary ? Published{plan::published_vocabulary("llama-8b"), "Llama 3"}
                                                    : Published{plan::published_vocabulary("gpt2"), "GPT-2"};
}

void refuse(const std::vector<plan::Problem>& problems, base::ExitCode code) {
  if (problems.empty()) return;
  const auto all = plan::as_one(problems);
  throw base::Error(code, all.message, all.hint);
}

// The default global batch: one local-accumulation group for each replica. Pipeline stages wait for one another if a
// replica has few micro-batches. So with stages it has at least as many sequences as train's default
// (engine::RunConfig), rounded up to whole groups. If the product exceeds the range of a batch, the result does too, so
// that it is refused.
std::int64_t usual_global_batch(const plan::Plan& p) {
  constexpr std::int64_t of_train = 8;
  const auto most = plan::ranges::global_batch.high;
  const int replicas = p.topology.size(plan::Axis::data);
  if (p.micro_batch > most / p.local_accumulation / replicas) return most + 1;
  const auto group = p.micro_batch * p.local_accumulation * replicas;
  return p.pipeline == 1 || group >= of_train ? group : (of_train + group - 1) / group * group;
}

void decide_vocabulary(plan::ModelConfig& model, const Options& o, const SetFacts& set) {
  if (o.vocabulary > 0 && !o.data.empty())
    throw base::UsageError("--vocabulary and --data are both given",
                           "leave --vocabulary out: the shard set contains its own");
  if (o.vocabulary > 0) model.vocabulary = o.vocabulary;
  if (o.vocabulary > 0 && plan::objective_of(model) == plan::Objective::masked)
    base::log_info(
        "a model whose attention is not causal needs a mask token: if the tokenizer has none, --vocabulary is one more "
        "than the tokenizer has (--data SET counts it)");
  const auto tokens = set.vocabulary;
  if (model.vocabulary > 0 && model.vocabulary < tokens)
    throw base::InputError(
        fmt::format("model {} has a vocabulary of {}, the shards in {} have {}", o.model, model.vocabulary, o.data,
                    tokens),
        "make the shards with the tokenizer of the checkpoint; or leave the vocabulary out of the model's file: it "
        "comes from the shards");
  if (model.vocabulary > 0) return;
  // The set's tokenizer may already have a mask token or sentinels. train accepts a plan with room for them in any
  // case.
  const auto more = plan::objective_of(model) == plan::Objective::masked ? 1
                    : plan::has_encoder(model) && !set.pairs             ? plan::usual_sentinels
                                                                         : 0;
  model.vocabulary = tokens > 0 ? tokens + more : published(model).vocabulary;
  if (tokens == 0)
    base::log_info(
        "a vocabulary of {} is assumed, as in {}; train refuses this plan for shards with another vocabulary (set it "
        "with --data SET or --vocabulary N)",
        base::count_text(model.vocabulary), published(model).name);
}

// Text about the share of the set's tokens that lie in windows; empty without a set.
std::string data_text(const SetFacts& set, const plan::Plan& p) {
  if (set.shard_tokens.empty() || plan::has_encoder(p.model)) return {};  // of pairs only their lengths say it
  const auto sequence = p.sequence;
  const auto use = plan::data_use(set.shard_tokens, sequence);
  if (const auto left_out = plan::left_out_text(use, sequence); !left_out.empty()) base::log_warning("{}", left_out);
  return "\n" + plan::data_use_text(use, sequence) + "\n";
}

// Bytes of --host-memory; 0: no limit.
std::int64_t host_memory_of(const Options& o) {
  return o.host_memory.empty()
             ? 0
             : base::parse_bytes(o.host_memory, "--host-memory", {base::least_memory, base::most_bytes});
}

plan::Plan decide(plan::Plan p, const Options& o, const SetFacts& set) {
  const auto presets = plan::preset_names();
  const bool is_preset = std::find(presets.begin(), presets.end(), o.model) != presets.end();
  const auto saved = is_preset ? std::nullopt : tools::saved_model(base::path_of_text(o.model));
  p.model = saved ? *saved : plan::load_model(o.model, io::read_layout_file);
  if (const auto dropped = plan::dropped_text(p.model); !dropped.empty()) base::log_warning("{}", dropped);
  if (p.gradient_dtype != base::DType::f32)
    base::log_warning("--gradient-dtype {} is only for comparison: train adds gradients in f32, and refuses this plan",
                      base::name_of(p.gradient_dtype));
  decide_vocabulary(p.model, o, set);
  if (o.recompute_auto) p.recompute = plan::undecided_recomputation(p);
  plan::take_adapter(o.adapter, p.model);
  if (o.lanes > 0) p.model.lanes = o.lanes;
  if (p.model.lanes == 0) p.model.lanes = plan::default_lanes(p.model, p.device);
  if (p.sequence == 0) p.sequence = p.model.context;
  if (p.source_sequence == 0 && plan::has_encoder(p.model)) p.source_sequence = p.sequence;
  p.topology = plan::topology_of(p, o.ranks);
  if (p.global_batch == 0) p.global_batch = usual_global_batch(p);
  if (!o.device_memory.empty())
    p.device_memory = base::parse_bytes(o.device_memory, "--device-memory", {base::least_memory, base::most_bytes});
  return p;
}

void require_device_memory(const plan::Plan& p, const char* asked) {
  if (p.device_memory == 0)
    throw base::UsageError(fmt::format("{} auto takes the least that fits, and nothing says what a rank has", asked),
                           "--device-memory 80GB");
}

// For --recompute auto.
void decide_recompute(plan::Plan& p, const Options& o) {
  if (!o.recompute_auto) return;
  require_device_memory(p, "--recompute");
  p.recompute = plan::fitting_recomputation(p, p.device_memory);
  const auto need = plan::memory_with(p, p.recompute);
  const auto of = fmt::format("{} of {}", base::size_text(need), base::size_text(p.device_memory));
  base::log_info("--recompute auto: {}: {}{}", plan::recomputation_text(p.recompute), of,
                 need > p.device_memory ? ", the least without --offload" : "");
}

// For --offload auto.
void decide_offload(plan::Plan& p, const Options& o) {
  if (!o.offload_auto) return;
  require_device_memory(p, "--offload");
  p.offload = plan::fitting_offload(p, p.device_memory, host_memory_of(o));
  base::log_info("--offload auto: {}", plan::offload_choice_text(p, p.offload, p.device_memory));
}

// The settings of a plan as flags. Settings that this program decides if they are not given show no default, except for
// the threads of a rank.
std::vector<base::Field> flag_fields(plan::Plan& p) {
  auto fields = plan::fields_of(p);
  auto layout = plan::fields_of(static_cast<plan::ParallelLayout&>(p));
  std::erase_if(fields, [](const auto& f) { return f.name == "device-memory"; });
  for (auto& f : fields) {
    // The value for one stage is only for files, not for the flag.
    if (f.name == "pipeline-schedule") f = base::field_named(layout, f.name, "a layout");
    f.group = "Parallel layout";
    if (f.name == "sequence") f.help = "tokens in a sequence; default: the model's context";
    if (f.name == "global-batch")
      f.help += "; default: one local accumulation on each replica, and 8 or more with pipeline stages";
    if (f.name == "threads") f.help = "OpenMP threads of a rank";
    if (f.name == "sequence" || f.name == "global-batch") f.get = [] { return std::string(); };
  }
  return fields;
}

// Writes the plan; --force replaces only a plan.
void write_plan(const std::string& json, const Options& o) {
  if (o.force)
    base::require_own(o.output,
                      base::own_json_files("a plan", "trainyard.plan/",
                                           {o.model, o.profile, o.data.empty() ? "" : o.data + "/index.json"}));
  base::write_file(o.output, json, o.force ? base::Existing::replace : base::Existing::refuse);
}

// The text for stdout: the plan's file, that file with the contents of the table of stages, or tables.
std::string text_of(const plan::Plan& plan, const Options& o, const Times& times, const std::string& about_data) {
  if (o.output == "-") return plan::to_json(plan);
  if (!o.json)
    return tools::plan_table(plan, o.bytes ? base::Sizes::exact : base::Sizes::rounded) + times.text + about_data;
  auto json = plan::json_of(plan);
  json.update(plan::report_json(plan));
  json.update(times.json);
  return json.dump(2) + "\n";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"", "partition-model"};
  tools::describe_program(
      app, "Predict memory, traffic and FLOPs of training a model over ranks, and write the plan that train follows.",
      "  partition-model --model gpt2 --ranks 8 --zero 2 --dtype bf16 --micro-batch 4 --global-batch 64 --sequence "
      "1024\n"
      "  partition-model --model llama-1b --ranks 16 --zero 3 --dtype bf16 --device-memory 80GB --json\n"
      "  partition-model --model llama-1b --ranks 8 --tensor-parallel 4 --sequence-parallel --zero 1 --sequence 2048\n"
      "  partition-model --model llama-1b --ranks 8 --pipeline-parallel 4 --zero 1 --sequence 2048 --global-batch 32\n"
      "  partition-model --model llama-8b --machine dgx-a100-40 --nodes 4 --sequence 4096 --global-batch 512 "
      "--search\n",
      "train, inspect");
  Options o;
  plan::Plan p;
  p.sequence = p.global_batch = 0;
  namespace ranges = plan::ranges;
  using tools::in_range;
  app.add_option("--model", o.model,
                 "preset or TOML file, as train --help-model says; or the folder of a checkpoint, or of a run")
      ->capture_default_str()
      ->group("Model");
  app.add_option("--data", o.data, "folder of the token shards for the training, which set the vocabulary")
      ->group("Model");
  app.add_option("--vocabulary", o.vocabulary,
                 "tokens in the vocabulary, if there are no shards yet; default: as published for the model: 50257 "
                 "(gpt2), 51200 (gpt3), 128256 (llama) ...")
      ->check(in_range(ranges::vocabulary))
      ->group("Model");
  app.add_option("--lanes", o.lanes,
                 "reduction lanes: slices of the sums that tensor-parallel ranks split; 0: the model's, else up to 8, "
                 "on a GPU 1")
      ->check(in_range(ranges::lanes))
      ->capture_default_str()
      ->group("Model");
  app.add_option("--adapter", o.adapter.adapter, "lora:16 trains low-rank adapters beside frozen weights")
      ->group("Model");
  app.add_option("--adapter-on", o.adapter.on, "layers with adapters: q,k,v,o,gate,up,down; default: q,v")
      ->group("Model");
  app.add_option("--adapter-alpha", o.adapter.alpha, "their outputs are multiplied by this / rank; default: by 1")
      ->check(in_range(base::Range<double>{0, 1e6}))
      ->group("Model");
  app.add_option("--ranks", o.ranks, "all ranks: --pipeline-parallel times --tensor-parallel times data-parallel ranks")
      ->check(in_range(ranges::ranks))
      ->capture_default_str()
      ->group("Parallel layout");
  auto fields = flag_fields(p);
  plan::let_be_auto(fields, "offload", o.offload_auto);
  plan::let_be_auto(fields, "recompute", o.recompute_auto);
  tools::ConfigFlags flags(app, fields);
  app.add_option("--device-memory", o.device_memory,
                 "memory of one rank, for example 80GB; exit 3 when the plan does not fit")
      ->group("Limit");
  app.add_option("--host-memory", o.host_memory, "the same, of the memory that a GPU's rank has on its host")
      ->group("Limit");
  app.add_option("--machine", o.machine,
                 "what the ranks run on: predict the time of a step. One of " +
                     base::listed(plan::machine_names(), "or") +
                     ", a TOML file, or a profile of profile-comm --blocks auto")
      ->group("Time");
  app.add_flag("--show-machine", o.show_machine, "print the machine's file, to change a copy of it")->group("Time");
  app.add_option("--nodes", o.nodes, "nodes of the machine, in place of --ranks; default: one")
      ->check(in_range(ranges::ranks))
      ->group("Time");
  app.add_option("--assume", o.assume,
                 "what another program does: unfused-attention, no-overlap, whole-recomputation, rings, with commas")
      ->group("Time");
  app.add_option(
         "--until", o.until,
         "also say hours, node-hours and joules: tokens=1e12 or steps=1000; after a comma also validate-every=100, "
         "validation-sequences=64 or save-every=500")
      ->group("Time");
  app.add_flag("--search", o.search, "the best layouts: of all settings of the layout that no flag gives")
      ->group("Search");
  app.add_option("--top", o.top, "how many of them")
      ->check(in_range(base::Range<int>{1, 1000}))
      ->capture_default_str()
      ->group("Search");
  app.add_option("--why-not", o.why_not, "why no layout with these settings is the best: tensor-parallel=2,zero=3")
      ->group("Search");
  app.add_flag("--fewest-nodes", o.fewest_nodes, "the fewest nodes, up to --nodes, on which some layout fits")
      ->group("Search");
  app.add_flag("--largest-model", o.largest_model, "the most layers like the model's that fit")->group("Search");
  app.add_flag("--shadow-prices", o.shadow_prices, "with --search: what a tenth more of the machine would give")
      ->group("Search");
  app.add_option("--scale", o.scale,
                 "the best layouts on more and more nodes: nodes=1:128, nodes=1,2,3; or layers=12:96")
      ->group("Search");
  app.add_option("--svg", o.svg, "picture of --scale: tokens a second and FLOP/s of a device; SVG or PNG")
      ->group("Search");
  app.add_option("--frontier", o.frontier, "the best layouts in less and less memory, and this picture of them")
      ->group("Search");
  app.add_option(
         "--profile", o.profile,
         "profile.json of profile-comm: print how long a step's collectives would take on its links, and how long "
         "what --offload moves would take on its disks; for --search and other questions: the machine")
      ->group("Product");
  app.add_option("--offload-dir", o.offload_dir,
                 "folders of train's --offload-dir, for example /local/nvme:3,/scratch/me:1: print what each gets")
      ->group("Product");
  app.add_option("--draw", o.draw,
                 "picture of a step on --machine: its passes, each stage's memory, the ranks of each node; SVG or PNG")
      ->group("Product");
  app.add_option("--output", o.output, "write the plan to this file, - for stdout")->group("Product");
  app.add_flag("--force", o.force, "replace an existing file")->group("Product");
  app.add_flag("--json", o.json, "print the plan as JSON, with a rank's bytes and the stages")->group("Product");
  app.add_flag("--bytes", o.bytes, "sizes in bytes, not rounded")->group("Product");
  return tools::guarded(app, argc, argv, [&] {
    flags.apply();
    for (const auto& line : flags.overridden()) base::log_info("{}", line);
    if ((!o.profile.empty() || !o.offload_dir.empty()) && o.output == "-")
      throw base::UsageError(
          fmt::format("{} prints what does not belong in a plan", o.profile.empty() ? "--offload-dir" : "--profile"),
          "leave out --output -, or name a file: --output plan.json");
    tools::require_one_question(o);
    if (o.show_machine) {
      if (o.machine.empty())
        throw base::UsageError("--show-machine shows a machine, and none is named", "--machine dgx-a100-80");
      for (const auto& [ending, what] : {std::pair{".toml", "cat"}, std::pair{".json", "inspect"}})
        if (o.machine.ends_with(ending))
          throw base::UsageError(fmt::format("{} is a machine's file already", base::one_line(o.machine)),
                                 fmt::format("{} shows it", what));
      tools::print(plan::machine_text(o.machine));
      return base::ExitCode::done;
    }
    const auto set = facts_of(o.data);
    const auto machine = tools::machine_of(o, p, flags, app.count("--ranks") > 0);
    if (!o.host_memory.empty() && p.device == base::DeviceKind::cpu)
      throw base::UsageError("--host-memory limits nothing: the ranks compute on the CPU, whose memory is the host's",
                             "--device-memory, or --device cuda");
    const auto execution = plan::execution_of_text(o.assume, "--assume");
    p.attention = execution.attention;
    const auto kernels = o.assume.empty() ? plan::Kernels::ours : plan::Kernels::others;
    if (!o.assume.empty() && !o.output.empty())
      throw base::UsageError("--assume predicts another program, and --output writes a plan for train",
                             "leave one of them out");
    if (app.count("--top") > 0 && !o.search)
      throw base::UsageError("--top says how many layouts --search prints", "--search --top 5");
    if (app.count("--ranks") > 0 && o.fewest_nodes)
      throw base::UsageError("--ranks is what --fewest-nodes finds", "leave --ranks out; --nodes is the most");
    const bool search = tools::searches(o);
    tools::refuse_pictures(o);
    if (search && p.global_batch == 0)
      throw base::UsageError("a search compares layouts of one global batch, and none is given", "--global-batch 512");
    auto plan = decide(p, o, set);
    if (o.fewest_nodes || o.largest_model || (search && (o.recompute_auto || o.offload_auto)))
      if (plan.device_memory == 0)
        throw base::UsageError("nothing says what a device has, so everything fits", "--device-memory 80GB");
    if (search) {
      const plan::SearchLimits limits{plan.device_memory, host_memory_of(o), static_cast<std::size_t>(o.top)};
      const plan::SearchOf of{plan, tools::space_of(o, flags), limits, *machine, execution, kernels};
      const auto found = tools::search_text(o, of, plan);
      if (!o.output.empty()) {
        plan::predict(plan);
        plan.step = plan::predicted_step(plan::step_interval(plan, *machine, execution), *machine);
      }
      if (!o.output.empty() && o.output != "-") write_plan(plan::to_json(plan), o);
      tools::print(o.output == "-" ? plan::to_json(plan)
                                   : tools::with_step_picture(o, plan, *machine, execution, found));
      return base::ExitCode::done;
    }
    refuse(plan::decision_problems(plan, {}, kernels), base::ExitCode::usage);
    decide_recompute(plan, o);
    decide_offload(plan, o);
    plan::predict(plan);
    if (const auto idle = plan::idle_text(plan.batch()); !idle.empty()) base::log_warning("{}", idle);
    refuse(plan::memory_problems(plan, "device-memory", kernels), base::ExitCode::input_refused);
    refuse(plan::host_memory_problems(plan, host_memory_of(o)), base::ExitCode::input_refused);
    auto times = tools::times_of(plan, o);
    if (machine) {
      const auto step = plan::step_interval(plan, *machine, execution);
      plan.step = plan::predicted_step(step, *machine);
      times.text += tools::step_time_text(plan, step, *machine);
      if (const auto until = tools::until_of(o.until, plan); until.steps > 0)
        times.text += "  " + tools::until_text(until, step.median.seconds, plan, *machine, execution) + "\n";
    }
    const auto about_data = data_text(set, plan);
    if (!o.output.empty() && o.output != "-") write_plan(plan::to_json(plan), o);
    auto text = text_of(plan, o, times, about_data);
    tools::print(machine ? tools::with_step_picture(o, plan, *machine, execution, std::move(text)) : text);
    return base::ExitCode::done;
  });
}
