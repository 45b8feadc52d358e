// inspect: says what a checkpoint, a run, a shard set or a plan is, and with --verify whether every byte of it is right.
#include "libtrain/base/error.h"
#include "libtrain/checkpoint/view.h"
#include "tools/common/program.h"
#include "tools/inspect/report.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  using namespace trainyard;
  CLI::App app{"Show what a checkpoint, a run, a shard set or a plan is: sizes, provenance, tensors, loss curve."};
  std::string path;
  bool verify = false, as_json = false, make_view = false;
  app.add_option("PATH", path, "checkpoint folder, folder of checkpoints, run folder, shard set or plan.json")->required();
  app.add_flag("--verify", verify, "read every byte and compare checksums and fingerprints; exit 3 names file, tensor and element range");
  app.add_flag("--make-view", make_view, "write checkpoint.h5, the view of whole tensors, into a checkpoint that was saved without");
  app.add_flag("--json", as_json, "print JSON");
  app.footer("Examples:\n  inspect runs/first\n  inspect --verify runs/first/checkpoints/step-00001000\n\nSee also: train, generate, checkpoints/README.md, h5ls(1), h5dump(1)");
  return tools::guarded(app, argc, argv, [&] {
    if (make_view) checkpoint::make_view(path);
    const auto report = inspect::report_on(path, verify ? inspect::Verify::yes : inspect::Verify::no);
    const auto text = as_json ? report.json.dump(2) + "\n" : report.text;
    std::fwrite(text.data(), 1, text.size(), stdout);
    return base::ExitCode::done;
  });
}
