// The reports of inspect: a kind, a JSON document, and a text for people.
#pragma once

#include "libtrain/base/number_text.h"
#include "libtrain/checkpoint/latest_whole.h"
#include "libtrain/plan/spec/model_config.h"
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
  Across across = Across::step;                     // x axis of a run's curves
  enum class Of { whole, step } trace = Of::whole;  // for a trace: its contents, or the timeline of one step
  std::int64_t step = 0;                            // which step; 0: the last that all ranks finished
  // Receives the bytes of a checkpoint that are verified so far, and all its bytes; may be empty.
  std::function<void(std::int64_t done, std::int64_t total)> watch;
};

struct Report {
  // "kind" is checkpoint, run, checkpoints, metrics, shards, shard, model, plan, profile, trace, comparison, experts or
  // layout.
  nlohmann::json json;
  std::string text;
  std::function<std::string()> drawing;  // makes its charts as SVG; empty if it has none
};

// Each of these throws InputError for what it cannot read. With Verify::everything all bytes are read and compared with
// their checksums. A plan is compared with what follows from its settings (CheckError). Files that have neither throw
// UsageError when asked to verify.
Report checkpoint_report(const std::string& folder, const Options& options);
Report checkpoints_report(const std::string& folder, const Options& options);  // a folder of step-NNNNNNNN folders
Report run_report(const std::string& folder, const Options& options);          // checkpoints/ and metrics.jsonl
Report metrics_report(const std::string& file, const Options& options);        // a metrics file anywhere
Report shards_report(const std::string& folder, const Options& options);       // index.json and shards
Report plan_report(const std::string& file, const Options& options);           // plan.json, profile.json
Report hdf5_report(const std::string& file, const Options& options);           // one shard of a set, a layout
Report trace_report(const std::string& file, const Options& options);          // what train --trace wrote
Report model_report(const std::string& file, const Options& options);          // the TOML file of a model
// The whole model of a model file, with the block layout of a layout file. Vocabulary and lanes are 0 if the file does
// not give them.
plan::ModelConfig described_model(const std::string& file);

// UsageError with Verify::everything.
void refuse_verify(const Options& options, const std::string& path, const char* what);

// Recognises what the path is, and makes the report.
Report report_on(const std::string& path, const Options& options);

}  // namespace trainyard::inspect
