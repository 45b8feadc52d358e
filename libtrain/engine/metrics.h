// Metrics: one JSON line for each step in metrics.jsonl, written by rank 0. A resume truncates the file to the
// checkpoint's step. No line is lost if somebody else touches the file.
#pragma once

#include "libtrain/engine/gate_metrics.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

// What a step reports of a shard set, if the run mixes several.
struct SetMetrics {
  std::string name;
  std::int64_t sequences = 0, tokens = 0;  // of the step; tokens: its counted targets
  std::optional<double> loss = {};         // mean over these; none: the step has none of them
  std::int64_t sequences_seen = 0;         // since the beginning of the run
  double epochs = 0;                       // how often the set was read
  std::optional<double> validation_loss = {};
};

// What one step reports, already agreed by all ranks. Times are seconds of the slowest rank. Hidden communication is
// communication during which compute went on.
struct StepMetrics {
  std::int64_t step = 0;       // completed optimizer steps, counted from 1
  std::int64_t steps = 0;      // of the whole run, as configured; 0: not known, and not written
  std::optional<double> loss;  // mean over the counted target tokens of the global batch; none: no token counts
  double learning_rate = 0;
  double gradient_norm = 0;
  std::int64_t skipped_steps = 0;  // of them, those that changed nothing: not finite, or outliers; 0: not written
  double loss_scale = 0;           // of a run that scales its loss; 0: not written
  std::int64_t tokens_seen = 0;    // since the beginning of the run
  double tokens_per_second = 0;
  double model_flops_per_second = 0;
  double step_seconds = 0, compute_seconds = 0, communication_seconds = 0, hidden_communication_seconds = 0;
  std::int64_t peak_bytes = 0;            // largest sum of arena high-water marks of any rank
  std::optional<double> validation_loss;  // set if a validation followed the step
  double validation_seconds = 0;          // not part of step_seconds
  // Set if a checkpoint was published since the step before: from its snapshot to its name in the run folder. The ranks
  // agree at the ends of steps, so a background save may wait for one.
  std::optional<double> save_seconds;
  std::optional<GateMetrics> gates;  // of a model with experts
  std::int64_t expert_rounds = 0;    // dispatch rounds of the layer that took most in a pass, over all ranks; 0: none
  // When the line was written (wall clock in UTC: 2026-01-31T23:59:59.123Z) and where. MetricsFile sets both.
  std::string time, host;
  // Of a step that is skipped as an outlier: the number that is above its limit ("gradient_norm" or "loss"), and the
  // limit. Empty: not written.
  std::string outlier;
  double outlier_limit = 0;
  std::optional<double> disk_wait_seconds;  // that a rank was blocked on its disk, the longest; if states lie there
  std::optional<double> predicted_step_seconds;  // by the plan's file, if it predicts this run's steps (step_watch.h)
  std::vector<SetMetrics> sets;                  // of a run that mixes sets
};

std::string to_json_line(const StepMetrics& m);  // loss and norm with all their digits

class MetricsFile {
 public:
  // Opens for appending, after it has removed every line of a later step and an unfinished last line. A file that has
  // other names (a hard link, as `cp -al` makes them) or is reached by a symbolic link stays as it is: this run gets a
  // copy, with a warning. InputError for something that is no file and for a link to nothing; EnvironmentError if the
  // system refuses.
  MetricsFile(const std::string& path, std::int64_t keep_through_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  static void require_file_or_nothing(const std::string& path);  // InputError where the constructor throws one
  // Bytes that the constructor keeps: up to the end of the last readable line before the first line of a later step.
  static std::int64_t length_through(const std::string& path, std::int64_t step);
  void write(StepMetrics m);  // EnvironmentError if the disk takes no more
  // Checks that the file still has its name and its length; write() does this first. A file that was removed or
  // replaced is written again with all its lines, as long as the system still has them. What was put in its place is
  // kept under another name. A file that was cut or grew continues at its end. Each of these is a warning.
  void mend();

 private:
  void open();
  void make_again(bool replaced);
  void go_on_at_end(std::int64_t found);
  void append(const std::string& text);

  std::string path_, host_;
  int file_ = -1;
  std::int64_t end_ = 0;  // bytes in the file
};

}  // namespace trainyard::engine
