// The line about a step, within 80 columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::tools {

struct StepNow {
  std::int64_t step = 0, steps = 0;  // steps: of the whole run; 0 if unknown
  std::optional<double> loss;        // of this step; none if no token of it counts
  std::optional<double> validation;  // the latest one
  double tokens_per_second = 0, seconds_left = 0;
  struct Experts {
    double fullest = 0, dropped_share = 0;  // load of the most loaded expert; 1 is an even load
  };
  std::optional<Experts> experts = {};         // only if the model has experts
  std::optional<double> disk_wait_share = {};  // of the step; only if states lie on disk
};

// For instance "step 300/600  loss 1.848  val 1.893  45,500 tokens/s  33 s left"; a model with experts has "load 1.3
// drop 2 %" before the speed, and a run with states on disk "disk 12 %", the share of the step that was blocked there.
// With a program's name before it and a cursor after it, it is at most 79 columns wide up to a million steps. Where
// necessary, words become shorter or are left out.
std::string step_text(const StepNow& now);
std::string left_text(double seconds);  // "33 s", "2 h 5 min", "30 h": long times have no minutes
std::string loss_text(double loss);     // lines below one another have the same number of digits

}  // namespace trainyard::tools
