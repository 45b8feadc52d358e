// inspect: reports on a checkpoint, a run, a shard set, a plan, a profile or a trace. With --verify it checks every
// byte. It also watches a run, compares several runs, and writes their curves for other programs.
#include "libtrain/base/error.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/named.h"
#include "libtrain/checkpoint/view.h"
#include "tools/common/checks.h"
#include "tools/common/interrupt.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/common/svg_file.h"
#include "tools/inspect/drawing.h"
#include "tools/inspect/experts.h"
#include "tools/inspect/export.h"
#include "tools/inspect/follow.h"
#include "tools/inspect/layout.h"
#include "tools/inspect/metrics_csv.h"
#include "tools/inspect/report.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace trainyard;

struct Asked {
  std::vector<std::string> paths, to;
  bool verify = false, json = false, csv = false, make_view = false, bytes = false, follow = false;
  std::string progress = "auto", svg, over = "step";
  bool over_given = false, timeline = false, experts = false, layout = false;
  std::int64_t step = 0;
  inspect::LayoutOptions looked_at;
  inspect::FollowOptions following;
};

constexpr std::size_t most_runs = 26;   // one letter each in a chart
constexpr std::size_t most_in_svg = 8;  // one color each in a drawing

// Refuses flags that cannot be combined. Each of these flags does one thing, and may have only the flags listed with
// it.
void refuse_combinations(const Asked& asked) {
  const std::vector<std::pair<const char*, bool>> given{
      {"--verify", asked.verify},     {"--make-view", asked.make_view}, {"--csv", asked.csv},
      {"--follow", asked.follow},     {"--export", !asked.to.empty()},  {"--json", asked.json},
      {"--bytes", asked.bytes},       {"--svg", !asked.svg.empty()},    {"--over", asked.over_given},
      {"--timeline", asked.timeline}, {"--experts", asked.experts},     {"--layout", asked.layout}};
  const bool several = asked.paths.size() > 1;
  const auto only = [&](const std::string& what, const std::vector<std::string>& with) {
    for (const auto& [flag, there] : given)
      if (there && flag != what && std::find(with.begin(), with.end(), flag) == with.end())
        throw base::UsageError(
            fmt::format("{} does not go with {}", flag, what),
            with.empty() ? "give one of them alone" : fmt::format("{} may go with {}", fmt::join(with, ", "), what));
  };
  if (several) only("several paths, which are compared", {"--json", "--svg", "--over"});
  if (asked.csv) only("--csv", {});
  if (asked.timeline) only("--timeline", {"--json", "--svg"});
  if (asked.experts) only("--experts", {"--json", "--svg"});
  if (asked.layout) only("--layout", {"--json", "--svg"});
  if (asked.follow) only("--follow", {});
  if (!asked.to.empty()) only("--export", {});
  for (const auto& [flag, there] : {given[0], given[1]})
    if (there) only(flag, {"--verify", "--make-view", "--json", "--bytes"});
  if (asked.json && asked.over_given && !several && asked.svg.empty())
    throw base::UsageError("--over changes nothing in the --json of one run", "leave it out, or draw with --svg");
  if (asked.json && asked.svg == "-")
    throw base::UsageError("--json and --svg - both write to standard output", "draw into a file");
  if (!asked.svg.empty() && asked.paths.size() > most_in_svg)
    throw base::UsageError(fmt::format("--svg: {} runs cannot be told apart in a drawing", asked.paths.size()),
                           fmt::format("draw at most {}; without --svg up to {} are compared", most_in_svg, most_runs));
  if (asked.paths.size() > most_runs)
    throw base::UsageError(fmt::format("{} runs are too many for one chart", asked.paths.size()),
                           fmt::format("compare at most {}", most_runs));
}

base::ExitCode export_metrics(const Asked& asked) {
  const auto& run = asked.paths.front();
  if (asked.to[0] != "tensorboard" && asked.to[0] != "csv")
    throw base::UsageError(fmt::format("--export {} is not known", asked.to[0]),
                           "--export tensorboard FOLDER, or --export csv FILE");
  if (asked.to[1].empty()) throw base::UsageError("--export: the place is empty", "is a variable unset?");
  tools::watch_signals();
  try {
    const auto made =
        asked.to[0] == "csv" ? inspect::export_csv(run, asked.to[1]) : inspect::export_tensorboard(run, asked.to[1]);
    tools::print(made + "\n");
  } catch (const tools::Interrupted&) {
    tools::end_by_signal("inspect", fmt::format("what is at {} is as it was", base::printable(asked.to[1])));
  }
  return base::ExitCode::done;
}

inspect::Report report_asked(const Asked& asked, inspect::Options options) {
  options.across = asked.over == "tokens" ? inspect::Across::tokens
                   : asked.over == "time" ? inspect::Across::time
                                          : inspect::Across::step;
  if (asked.timeline) options.trace = inspect::Options::Of::step, options.step = asked.step;
  if (asked.experts) return inspect::experts_report(asked.paths.front());
  if (asked.layout) return inspect::layout_report(asked.paths.front(), asked.looked_at);
  if (asked.paths.size() == 1) return inspect::report_on(asked.paths.front(), options);
  const auto runs = inspect::read_histories(asked.paths);
  auto report = inspect::comparison_report(runs, options.across);
  report.drawing = [runs, across = options.across] { return inspect::comparison_drawing(runs, across); };
  return report;
}

base::ExitCode show(const Asked& asked) {
  refuse_combinations(asked);
  if (!asked.svg.empty()) tools::require_drawing_name("--svg", asked.svg);
  const auto& path = asked.paths.front();
  if (asked.follow) return inspect::follow(path, asked.following);
  if (!asked.to.empty()) return export_metrics(asked);
  if (asked.csv) {
    inspect::print_metrics_csv(path);
    return base::ExitCode::done;
  }
  tools::Progress line("verify", tools::progress_mode(asked.progress));
  inspect::Options options;
  options.verify = asked.verify ? inspect::Verify::everything : inspect::Verify::metadata;
  options.sizes = asked.bytes ? base::Sizes::exact : base::Sizes::rounded;
  options.watch = [&](std::int64_t done, std::int64_t total) {
    line.show(fmt::format("{} of {}", base::size_text(done), base::size_text(total)),
              done == total ? tools::Progress::Update::last : tools::Progress::Update::passing);
  };
  if (asked.make_view) checkpoint::make_view(checkpoint::named_checkpoint(path));
  const auto report = report_asked(asked, options);
  const auto kind = report.json.value("kind", "");
  if (asked.over_given && kind != "run" && kind != "metrics" && kind != "comparison")
    throw base::UsageError(fmt::format("--over is for the curves of runs: {} is of the kind '{}'", path, kind),
                           "leave it out");
  if (asked.timeline && kind != "trace")
    throw base::UsageError(fmt::format("--timeline is for a trace: {} is of the kind '{}'", path, kind),
                           "train --trace writes one");
  if (!asked.svg.empty()) {
    if (!report.drawing)
      throw base::UsageError(fmt::format("--svg: nothing about {} is drawn", path),
                             kind == "trace"    ? "--timeline has a drawing"
                             : kind == "model"  ? "--layout has a drawing, where a layer has blocks"
                             : kind == "layout" ? "a model whose layers have blocks has a drawing"
                                                : "runs with metrics, several of them, profiles of links and "
                                                  "timelines have charts");
    if (asked.svg == "-") {
      tools::print(report.drawing());
      return base::ExitCode::done;
    }
    auto inputs = asked.paths;
    for (const auto& p : asked.paths) inputs.push_back(p + "/metrics.jsonl");
    tools::write_drawing(asked.svg, report.drawing(), std::move(inputs));
  }
  tools::print(asked.json ? report.json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                          : base::printable(report.text));
  return base::ExitCode::done;
}

void add_flags(CLI::App& app, Asked& asked) {
  app.add_option("PATH", asked.paths,
                 "run, checkpoint or folder of them, shard set or shard, metrics, plan.json, profile.json, "
                 "model.toml, layout.h5, trace; several runs or metrics files are compared: one chart, a table, and "
                 "the first step "
                 "at which any bit differs")
      ->required()
      ->expected(1, -1)
      ->type_name("TEXT");
  app.add_flag("--verify", asked.verify,
               "read every byte and compare checksums and fingerprints; exit 3 names file, tensor and element range; "
               "of a plan: compute its predictions again, exit 5 if they differ");
  app.add_flag("--make-view", asked.make_view,
               "write checkpoint.h5, the view of whole tensors, into a checkpoint that has none");
  app.add_flag("--json", asked.json, "print JSON");
  app.add_flag("--bytes", asked.bytes, "sizes in bytes, not rounded");
  app.add_flag("--csv", asked.csv,
               "of a run or a metrics file: print all metrics as CSV, one row a step; a missing value is empty");
  auto* follow = app.add_flag("--follow", asked.follow,
                              "watch a run until it has ended: loss, speed, time left, the newest checkpoint; without "
                              "a terminal a line for new steps. Exit 0: all steps are done and saved; 75: it stopped "
                              "before; 6: it was killed; else the exit code of the rank that ended it");
  app.add_option("--interval", asked.following.interval, "seconds between two updates of --follow")
      ->check(tools::in_range(base::Range<double>{0.1, 3600}))
      ->needs(follow)
      ->capture_default_str();
  app.add_flag("--wait", asked.following.past_stops,
               "with --follow: if the run stops before its last step, wait until it goes on")
      ->needs(follow);
  auto* over = app.add_option("--over", asked.over, "x axis of the curves of runs: step, tokens or time")
                   ->check(tools::one_of({"step", "tokens", "time"}))
                   ->capture_default_str();
  over->each([&asked](const std::string&) { asked.over_given = true; });
  app.add_option("--svg", asked.svg,
                 "also draw the charts of a run, of up to 8 runs, of a profile, of --timeline, --experts or --layout "
                 "into this file, as SVG; as PNG where its name ends in .png, which needs rsvg-convert; replaces a "
                 "drawing of these programs; -: write the SVG to standard output and nothing else");
  app.add_flag("--experts", asked.experts,
               "of a run or a metrics file of a model with experts: draw how even their loads were and how many "
               "choices were dropped, for each layer over the steps");
  auto* layout = app.add_flag("--layout", asked.layout,
                              "of a model.toml, a plan, a run or checkpoint, or the HDF5 file of a layout: which "
                              "blocks of queries and keys attention computes, counted and drawn");
  const auto look_at = [&](const char* name, std::int64_t& number, const char* help, std::int64_t least) {
    app.add_option(name, number, help)
        ->check(tools::in_range(base::Range<std::int64_t>{least, 1'000'000'000}))
        ->needs(layout);
  };
  look_at("--layer", asked.looked_at.layer, "the --layout of this layer alone, from 0", 0);
  look_at("--head", asked.looked_at.head, "which head is drawn, from 0, if heads differ", 0);
  look_at("--sequence", asked.looked_at.sequence,
          "tokens of a sequence in --layout; default: the plan's, else the model's context", 1);
  auto* timeline = app.add_flag("--timeline", asked.timeline,
                                "of a trace: draw what each rank computed when in one step, and below it a simulation, "
                                "which waits only where the schedule itself makes ranks wait");
  app.add_option("--step", asked.step, "which step of --timeline; 0: the last that all ranks finished")
      ->check(tools::in_range(base::Range<std::int64_t>{0, 1'000'000'000'000}))
      ->needs(timeline)
      ->capture_default_str();
  app.add_option(
         "--export", asked.to,
         "'tensorboard FOLDER': all metrics of a run as an event file there; 'csv FILE': what --csv prints; what "
         "was exported there before is replaced")
      ->expected(2)
      ->type_name("FORMAT PATH");
  app.add_option("--progress", asked.progress, "auto, always or never: show how far --verify is, on stderr")
      ->check(tools::one_of({"auto", "always", "never"}))
      ->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  Asked asked;
  CLI::App app{"", "inspect"};
  tools::describe_program(
      app,
      "Show what a checkpoint, a run, metrics, a shard set, a plan, a profile or a trace is: sizes, "
      "provenance, tensors, curves. Watch a run, compare runs, draw them.",
      "  inspect run\n"
      "  inspect --verify run/checkpoints/step-00000020\n"
      "  inspect --csv run | head\n"
      "  inspect run --follow\n"
      "  inspect run run/metrics.jsonl --svg runs.svg\n"
      "  inspect run --export tensorboard events\n"
      "  train --model moe-nano --data data --output moe --steps 20 --global-batch 8\n"
      "  inspect moe --experts\n"
      "  inspect trace.json --timeline\n"
      "  printf 'context = 2048\\nattention-layout = \"bigbird\"\\n' | tee bird.toml\n"
      "  inspect bird.toml --layout --svg bird.svg\n",
      "train, generate, checkpoints/README.md, h5ls(1), h5dump(1), tensorboard(1)");
  add_flags(app, asked);
  return tools::guarded(app, argc, argv, [&] { return show(asked); });
}
