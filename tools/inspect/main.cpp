// inspect: says what a checkpoint, a run, a shard set, a plan or a profile is, and with --verify whether every byte of
// it is right.
#include "libtrain/base/error.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/view.h"
#include "tools/common/checks.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/inspect/metrics_csv.h"
#include "tools/inspect/report.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <string>

int main(int argc, char** argv) {
  using namespace trainyard;
  CLI::App app{"", "inspect"};
  tools::describe_program(app,
                          "Show what a checkpoint, a run, metrics, a shard set, a plan or a profile is: sizes, "
                          "provenance, tensors, curves.",
                          "  inspect run\n"
                          "  inspect --verify run/checkpoints/step-00000020\n"
                          "  inspect --csv run | head\n",
                          "train, generate, checkpoints/README.md, h5ls(1), h5dump(1)");
  std::string path;
  bool verify = false, as_json = false, csv = false, make_view = false, bytes = false;
  app.add_option("PATH", path,
                 "run, checkpoint or folder of them, shard set or shard, metrics, plan.json, profile.json, model.toml")
      ->required();
  auto* verifying = app.add_flag("--verify", verify,
                                 "read every byte and compare checksums and fingerprints; exit 3 names file, tensor "
                                 "and element range; of a plan: compute it again, exit 5 where it says otherwise");
  auto* viewing =
      app.add_flag("--make-view", make_view,
                   "write checkpoint.h5, the view of whole tensors, into a checkpoint that was saved without");
  auto* json = app.add_flag("--json", as_json, "print JSON");
  auto* exact = app.add_flag("--bytes", bytes, "sizes in bytes, not rounded");
  app.add_flag("--csv", csv,
               "of a run or a metrics file: all metrics as CSV, one row a step, empty where a line lacks a value")
      ->excludes(json, verifying, viewing, exact);
  std::string progress = "auto";
  app.add_option("--progress", progress, "auto, always or never: show how far --verify is, on stderr")
      ->check(tools::one_of({"auto", "always", "never"}))
      ->capture_default_str();
  return tools::guarded(app, argc, argv, [&] {
    tools::Progress line("verify", tools::progress_mode(progress));
    inspect::Options options;
    options.verify = verify ? inspect::Verify::everything : inspect::Verify::metadata;
    options.sizes = bytes ? base::Sizes::exact : base::Sizes::rounded;
    options.watch = [&](std::int64_t done, std::int64_t total) {
      line.show(fmt::format("{} of {}", base::size_text(done), base::size_text(total)),
                done == total ? tools::Progress::Update::last : tools::Progress::Update::passing);
    };
    if (csv) {
      inspect::print_metrics_csv(path);
      return base::ExitCode::done;
    }
    if (make_view) checkpoint::make_view(path);
    const auto report = inspect::report_on(path, options);
    const auto text = as_json ? report.json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                              : base::printable(report.text);
    tools::print(text);
    return base::ExitCode::done;
  });
}
