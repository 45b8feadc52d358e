// What inspect finds out: a kind, a JSON document, and its text for people.
#pragma once

#include "libtrain/base/number_text.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/plan/model_config.h"
#include "tools/inspect/history.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace trainyard::inspect {

using checkpoint::Verify;
struct Options {
  Verify verify = Verify::metadata;
  base::Sizes sizes = base::Sizes::rounded;
  Across across = Across::step;                     // of the curves of a run
  enum class Of { whole, step } trace = Of::whole;  // a trace: what is in it, or the timeline of one step
  std::int64_t step = 0;                            // which; 0: the last that all ranks finished
  std::function<void(std::int64_t done, std::int64_t total)>
      watch;  // bytes of the checkpoint being verified; may be empty
};

struct Report {
  nlohmann::json json;  // "kind": checkpoint, run, checkpoints, metrics, shards, shard, model, plan, profile, trace,
                        // comparison, experts, layout
  std::string text;
  std::function<std::string()> drawing;  // its charts as SVG; empty where it has none
};

// Each throws InputError for what it cannot read; with Verify::everything all of it is read and compared with its
// checksums (a plan: with what follows from its settings; CheckError). What has neither refuses to verify: a
// UsageError.
Report checkpoint_report(const std::string& folder, const Options& options);
Report checkpoints_report(const std::string& folder, const Options& options);  // a folder of step-NNNNNNNN folders
Report run_report(const std::string& folder, const Options& options);          // checkpoints/ and metrics.jsonl
Report metrics_report(const std::string& file, const Options& options);        // a metrics file anywhere
Report shards_report(const std::string& folder, const Options& options);       // index.json and shards
Report plan_report(const std::string& file, const Options& options);           // plan.json, profile.json
Report hdf5_report(const std::string& file, const Options& options);           // one shard of a set, a layout
Report trace_report(const std::string& file, const Options& options);          // what train --trace wrote
Report model_report(const std::string& file, const Options& options);          // the TOML file of a model
// What model_report is about, whole (with the layout of a file): vocabulary and lanes are 0 where nobody says them.
plan::ModelConfig described_model(const std::string& file);

void refuse_verify(const Options& options, const std::string& path,
                   const char* what);  // UsageError with Verify::everything

// Finds out what the path is.
Report report_on(const std::string& path, const Options& options);

}  // namespace trainyard::inspect
