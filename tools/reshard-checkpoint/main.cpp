// reshard-checkpoint: converts a checkpoint to another parallel layout, averages several, joins mixtures of experts or
// makes one smaller, compares two, or verifies one.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/byte_size.h"
#include "libtrain/base/cores.h"
#include "libtrain/base/dtype.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/average.h"
#include "libtrain/checkpoint/chosen_experts.h"
#include "libtrain/checkpoint/expert_use.h"
#include "libtrain/checkpoint/merge.h"
#include "libtrain/checkpoint/named.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/plan_json.h"
#include "tools/common/checks.h"
#include "tools/common/interrupt.h"
#include "tools/common/program.h"
#include "tools/reshard-checkpoint/report.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace trainyard;

constexpr const char* examples =
    "  reshard-checkpoint run whole --consolidate\n"
    "  reshard-checkpoint run eight --data-parallel 8 --tensor-parallel 1 --zero 3\n"
    "  reshard-checkpoint run shared --data-parallel 3 --tensor-parallel 2\n"
    "  reshard-checkpoint run staged --data-parallel 1 --pipeline-parallel 2 --partition uniform\n"
    "  reshard-checkpoint moe dealt-out --data-parallel 4 --tensor-parallel 1 --expert-parallel 2\n"
    "  reshard-checkpoint run weights --only model --dtype bf16\n"
    "  reshard-checkpoint --diff whole eight\n"
    "  reshard-checkpoint --average whole eight mean --json\n"
    "  reshard-checkpoint --ema run2 smooth\n"
    "  reshard-checkpoint --merge adapted merged\n"
    "  reshard-checkpoint --join-experts moe dealt-out put-together\n"
    "  reshard-checkpoint --keep-experts 2 --expert-use <(train --evaluate moe --json) moe smaller\n"
    "  reshard-checkpoint --verify mean\n";

struct Settings {
  std::vector<std::string> paths;
  std::optional<int> data, tensor, experts, pipeline, zero, keep_experts;
  int threads = 0;
  std::string partition, plan, dtype, only, expert_use, memory = "256MiB", progress = "auto";
  std::optional<double> tolerance;
  bool consolidate = false, average = false, merge = false, ema = false, join_experts = false;
  bool diff = false, verify = false, force = false, json = false;
};

void add_options(CLI::App& app, Settings& s) {
  using tools::in_range, tools::one_of;
  app.add_option(
         "PATHS", s.paths,
         "SRC DST; with --average and --join-experts A B C ... DST; with --diff A B; with --verify SRC. An input "
         "is a checkpoint, or a run, for its newest whole checkpoint")
      ->required();
  app.add_flag("--average", s.average,
               "write the mean of the inputs' weights, added in f64; all else, optimizer states too, comes from the "
               "last input")
      ->group("Work");
  app.add_flag("--ema", s.ema,
               "write the moving average of the weights that a run with train --ema keeps, as weights alone")
      ->group("Work");
  app.add_flag("--merge", s.merge,
               "add adapters to the weights beside them: DST is a model without adapters, with the weights alone")
      ->group("Work");
  app.add_flag("--join-experts", s.join_experts,
               "put the experts and gates of mixtures side by side: DST has the experts of all inputs and the mean of "
               "their other weights, as weights alone")
      ->group("Work");
  app.add_option("--keep-experts", s.keep_experts,
                 "keep in each layer the N experts that --expert-use counts most, as weights alone")
      ->check(in_range(base::Range<int>{1, 4096}))
      ->group("Work")
      ->type_name("N");
  app.add_option("--expert-use", s.expert_use,
                 "for --keep-experts: how often each expert was chosen, as train --evaluate SRC --json prints it; of "
                 "several lines the sum counts")
      ->group("Work")
      ->type_name("FILE");
  app.add_flag("--diff", s.diff,
               "compare tensor by tensor: largest absolute and relative difference, where it is, cosine; exit 5 if any "
               "tensor differs")
      ->group("Work");
  app.add_flag("--verify", s.verify,
               "read every byte and compare checksums and fingerprints; exit 3 names file, tensor and element range")
      ->group("Work");
  app.add_option("--tolerance", s.tolerance, "for --diff: largest relative difference that is allowed [none]")
      ->check(in_range(base::Range<double>{0, 1e30}))
      ->group("Work");
  app.add_option("--data-parallel,--dp", s.data, "data-parallel ranks; each rank has a file [as many as SRC has]")
      ->check(in_range(plan::ranges::ranks))
      ->group("Parallel layout");
  app.add_option("--tensor-parallel,--tp,--tensor", s.tensor,
                 "tensor-parallel ranks of each data-parallel one [as many as SRC has]")
      ->check(in_range(plan::ranges::tensor))
      ->group("Parallel layout");
  app.add_option("--expert-parallel,--ep", s.experts,
                 "data-parallel ranks that hold different experts of each layer; divides --data-parallel and the "
                 "number of experts [as many as SRC has if that divides them, else 1]")
      ->check(in_range(plan::ranges::expert_parallel))
      ->group("Parallel layout");
  app.add_option("--pipeline-parallel,--pp,--pipeline", s.pipeline,
                 "pipeline stages: each has consecutive layers, on data-parallel and tensor-parallel ranks of its own "
                 "[as many as SRC has]")
      ->check(in_range(plan::ranges::ranks))
      ->group("Parallel layout");
  app.add_option("--partition", s.partition,
                 "where pipeline stages begin in embedding, layers and head: uniform, parameters, flops, type:PATTERN, "
                 "or first items as 0,3,6 [as in SRC if the number of stages stays, else flops]")
      ->group("Parallel layout");
  app.add_option("--zero", s.zero, "ZeRO stage that DST records; its files are the same for every stage [as in SRC]")
      ->check(in_range(base::Range<int>{0, 3}))
      ->group("Parallel layout");
  app.add_flag("--consolidate", s.consolidate, "one rank file: 1 rank in every parallel degree")
      ->group("Parallel layout");
  app.add_option("--plan", s.plan,
                 "take all parallel degrees, stages, ZeRO stage and dtype from this plan of partition-model")
      ->type_name("FILE")
      ->group("Parallel layout");
  app.add_option(
         "--dtype", s.dtype,
         "working dtype, f32, bf16 or f16; with the last two, the exact f32 weights stay as master weights [as in SRC]")
      ->transform(tools::one_of_dtypes(base::names_of_working_dtypes()))
      ->group("Parallel layout");
  app.add_option("--only", s.only,
                 "model: write the weights alone, for generate, train --evaluate and --init-from; no run can go on "
                 "from them. With --diff: compare the weights alone [all that SRC has]")
      ->check(one_of({"model"}))
      ->group("Parallel layout");
  app.add_option("--memory", s.memory, "memory for the buffers of all threads [256MiB]")->group("Running");
  app.add_option("--threads", s.threads, "threads; 0: all cores; DST does not depend on it [0]")
      ->check(in_range(base::Range<int>{0, 4096}))
      ->group("Running");
  app.add_flag("--force", s.force, "replace a checkpoint at DST, and begin anew if an earlier start was interrupted")
      ->group("Running");
  app.add_flag("--json", s.json, "print JSON")->group("Running");
  app.add_option("--progress", s.progress, "auto, always or never [auto]")
      ->check(one_of({"auto", "always", "never"}))
      ->group("Running");
}

// Refuses flags that have no meaning together, so that no given flag is ignored.
void require_apart(const CLI::App& app) {
  using Names = std::vector<const char*>;
  const std::vector<std::pair<Names, Names>> apart{
      {{"--average"}, {"--ema", "--merge", "--join-experts", "--keep-experts", "--diff", "--verify"}},
      {{"--join-experts"}, {"--ema", "--merge", "--keep-experts", "--diff", "--verify", "--only", "--plan"}},
      {{"--keep-experts"}, {"--ema", "--merge", "--diff", "--verify", "--only", "--plan"}},
      {{"--ema"}, {"--merge", "--diff", "--verify"}},
      {{"--merge"}, {"--diff", "--verify", "--only", "--plan"}},
      {{"--diff"}, {"--verify"}},
      {{"--diff", "--verify"},
       {"--data-parallel", "--tensor-parallel", "--expert-parallel", "--pipeline-parallel", "--partition", "--zero",
        "--consolidate", "--plan", "--dtype", "--force", "--memory"}},
      {{"--verify"}, {"--threads", "--only"}},
      {{"--plan"},
       {"--data-parallel", "--tensor-parallel", "--expert-parallel", "--pipeline-parallel", "--partition", "--zero",
        "--consolidate", "--dtype"}},
      {{"--consolidate"},
       {"--data-parallel", "--tensor-parallel", "--expert-parallel", "--pipeline-parallel", "--partition"}}};
  for (const auto& [one, other] : apart)
    for (const auto* a : one)
      for (const auto* b : other)
        if (app.count(a) > 0 && app.count(b) > 0)
          throw base::UsageError(fmt::format("{} and {} do not go together", a, b), "leave one of them out");
  if (app.count("--keep-experts") != app.count("--expert-use"))
    throw base::UsageError("--keep-experts and --expert-use need each other",
                           "reshard-checkpoint --keep-experts N --expert-use FILE SRC DST");
  if (app.count("--tolerance") > 0 && app.count("--diff") == 0)
    throw base::UsageError("--tolerance is only for --diff", "reshard-checkpoint --diff A B --tolerance X");
}

void require_paths(const Settings& s) {
  const auto n = s.paths.size();
  const auto refuse = [&](const char* form) {
    throw base::UsageError(fmt::format("{} given", base::counted(static_cast<std::int64_t>(n), "path")),
                           fmt::format("reshard-checkpoint {}", form));
  };
  if (s.verify && n != 1) refuse("--verify SRC");
  if (s.diff && n != 2) refuse("--diff A B");
  if (s.average && n < 3) refuse("--average A B C ... DST");
  if (s.join_experts && n < 3) refuse("--join-experts A B C ... DST");
  if (!s.verify && !s.diff && !s.average && !s.join_experts && n != 2) refuse("SRC DST");
}

using tools::Progressing;
auto watcher(const char* label, const Settings& s, Progressing unit) {
  return tools::progress_watch(label, s.progress, unit);
}

using Sources = std::vector<std::unique_ptr<checkpoint::Reader>>;

// Opens the checkpoints that the paths name and runs `work` on them. Repeats it if a run removed one of them meanwhile.
base::ExitCode with_sources(const std::vector<std::string>& paths,
                            const std::function<base::ExitCode(const Sources&)>& work) {
  return checkpoint::looking_again(paths, [&] {
    Sources sources;
    std::vector<std::string> found;
    for (const auto& path : paths) {
      found.push_back(checkpoint::named_checkpoint(path));
      checkpoint::reading(
          {found.back()},
          [&] {
            sources.push_back(
                std::make_unique<checkpoint::Reader>(found.back(), checkpoint::Reader::Check::all_but_payloads));
          },
          checkpoint::Seen::listed);
    }
    return checkpoint::reading(
        found, [&] { return work(sources); }, checkpoint::Seen::listed);
  });
}

checkpoint::Contents contents_of(const Settings& s, checkpoint::Contents otherwise) {
  return s.only == "model" ? checkpoint::Contents::model : otherwise;
}

checkpoint::NewLayout layout_of(const Settings& s, const checkpoint::Reader& source) {
  checkpoint::NewLayout layout;
  layout.data = s.consolidate ? 1 : s.data.value_or(0);
  layout.tensor = s.consolidate ? 1 : s.tensor.value_or(0);
  layout.experts = s.consolidate ? 1 : s.experts.value_or(0);
  layout.pipeline = s.consolidate ? 1 : s.pipeline.value_or(0);
  layout.partition = s.partition;
  layout.zero = s.zero;
  if (!s.dtype.empty()) layout.dtype = base::dtype_from_name(s.dtype);
  layout.contents = contents_of(s, source.state().contents);
  if (s.plan.empty()) return layout;
  const auto plan = plan::plan_from_json(base::read_file(s.plan, base::largest_description), s.plan);
  layout.data = plan.topology.size(plan::Axis::data), layout.tensor = plan.topology.size(plan::Axis::tensor);
  layout.experts = plan.topology.size(plan::Axis::expert);
  layout.stages = plan.stages;
  if (checkpoint::parameters_of(plan.model) != source.manifest().parameters)
    throw base::InputError(fmt::format("{}: the plan is for {}, whose tensors differ from the tensors of {}", s.plan,
                                       base::one_line(plan.model.name), source.path()),
                           "make a plan for the checkpoint's model: inspect shows it");
  if (plan.topology.world() != layout.data * layout.tensor * plan.stages.stages)
    throw base::UsageError(
        fmt::format("{}: the plan has more than data-parallel ranks, tensor-parallel ranks and pipeline stages",
                    s.plan),
        "make another plan with partition-model");
  layout.dtype = plan.dtype;
  layout.plan = nlohmann::json(plan::json_of(plan));
  return layout;
}

// Warns about an odd layout before the work, which may take long.
void warn_of(const checkpoint::NewLayout& layout, const checkpoint::Manifest& source) {
  const auto ranks = checkpoint::ranks_of_layout(source, layout);
  for (const auto& doubt :
       checkpoint::doubts_of_layout(checkpoint::state_of_layout(source.state, layout, ranks), ranks))
    base::log_warning("{}", doubt);
}

// The experts of the new checkpoint, where the work is about experts.
std::optional<checkpoint::ChosenExperts> experts_of(const Settings& s,
                                                    const std::vector<const checkpoint::Reader*>& sources) {
  if (s.join_experts) return checkpoint::joined_experts(sources);
  if (!s.keep_experts) return {};
  const auto use =
      checkpoint::expert_use_from_text(base::read_file(s.expert_use, base::largest_description), s.expert_use);
  return checkpoint::most_used_experts(*sources.back(), *s.keep_experts, use, s.expert_use);
}

base::ExitCode make(const Settings& s, const Sources& sources) {
  const auto start = base::steady_seconds();
  std::vector<const checkpoint::Reader*> read;
  for (const auto& source : sources) read.push_back(source.get());
  checkpoint::ReshardOptions o;
  o.existing = s.force ? base::Existing::replace : base::Existing::refuse;
  o.memory = base::parse_bytes(s.memory, "--memory", {checkpoint::least_reshard_memory, base::most_bytes});
  o.threads = base::threads_or_all(s.threads);
  o.watch = watcher("reshard-checkpoint", s, Progressing::bytes);
  o.history = engine::history_through(read.back()->path(), read.back()->state().step);
  reshard::Made made{{}, read.back()->manifest().ranks, s.paths.back(), {}, 0};
  for (const auto* source : read) made.sources.push_back(source->path());
  auto layout = layout_of(s, *read.back());
  const auto experts = experts_of(s, read);
  if (s.merge || experts) layout.contents = checkpoint::Contents::model;
  checkpoint::require_free_destination(base::without_slashes(made.output), o.existing, made.sources);
  warn_of(layout, experts ? checkpoint::manifest_of_chosen(*read.back(), *experts) : read.back()->manifest());
  made.result = experts     ? checkpoint::take_experts(read, *experts, made.output, layout, o)
                : s.merge   ? checkpoint::merge_adapters(*read.back(), made.output, layout, o)
                : s.average ? checkpoint::average(read, made.output, layout, o)
                : s.ema     ? checkpoint::moving_average(*read.back(), made.output, layout, o)
                            : checkpoint::reshard(*read.back(), made.output, layout, o);
  made.seconds = base::steady_seconds() - start;
  if (s.json) {
    tools::print(reshard::json_of(made).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return base::ExitCode::done;
  }
  tools::print(made.output + "\n");
  fmt::print(stderr, "reshard-checkpoint: {}", reshard::text_of(made));
  return base::ExitCode::done;
}

base::ExitCode compare(const Settings& s, const Sources& sources) {
  const auto &a = sources[0], &b = sources[1];
  reshard::Comparison c{a->path(), b->path(), s.tolerance, {}, engine::differences(a->state(), b->state())};
  c.tensors = checkpoint::compare(*a, *b, contents_of(s, checkpoint::Contents::all), base::threads_or_all(s.threads),
                                  watcher("diff", s, Progressing::elements));
  tools::print(s.json ? reshard::json_of(c).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                      : reshard::text_of(c));
  if (const auto failures = c.failures(); failures > 0)
    throw base::CheckError(fmt::format("{} and {} differ in {} of {}{}", c.first, c.second, failures,
                                       base::counted(static_cast<std::int64_t>(c.tensors.size()), "tensor"),
                                       s.tolerance ? fmt::format(" by more than {}", *s.tolerance) : ""),
                           a->state().contents != b->state().contents && s.only.empty()
                               ? "one has the weights alone: --only model compares no more than these"
                               : "--tolerance X lets relative differences up to X pass");
  return base::ExitCode::done;
}

base::ExitCode verify(const Settings& s, const Sources& sources) {
  const auto& source = sources[0];
  source->verify_all(watcher("verify", s, Progressing::bytes));
  tools::print(
      s.json ? nlohmann::ordered_json{{"path", source->path()}, {"bytes", source->bytes()}, {"verified", true}}.dump(
                   2, ' ', false, nlohmann::json::error_handler_t::replace) +
                   "\n"
             : fmt::format("{}: {} read, every checksum and fingerprint is right\n", source->path(),
                           base::size_text(source->bytes())));
  return base::ExitCode::done;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("", "reshard-checkpoint");
  tools::describe_program(
      app, "Writes a checkpoint anew for other ranks; also averages, merges, joins, compares and verifies.", examples,
      "train, inspect, partition-model; checkpoints/README.md for the format");
  add_options(app, s);
  return tools::guarded(app, argc, argv, [&] {
    tools::watch_signals();
    require_apart(app);
    require_paths(s);
    try {
      auto read = s.paths;
      if (!s.verify && !s.diff) read.pop_back();  // the destination
      return with_sources(read, [&](const Sources& sources) {
        return s.verify ? verify(s, sources) : s.diff ? compare(s, sources) : make(s, sources);
      });
    } catch (const tools::Interrupted&) {
      tools::end_by_signal("reshard-checkpoint", s.diff || s.verify
                                                     ? "nothing was found until then"
                                                     : base::printable(s.paths.back()) + " is not there");
    }
  });
}
