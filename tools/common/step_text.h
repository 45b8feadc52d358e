// What is said about a step, within 80 columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::tools {

struct StepNow {
  std::int64_t step = 0, steps = 0;  // steps: of the whole run; 0: not known
  double loss = 0;
  std::optional<double> validation;  // the last there was
  double tokens_per_second = 0, seconds_left = 0;
  struct Experts {
    double fullest = 0, dropped_share = 0;  // load of the fullest, 1 is even
  };
  std::optional<Experts> experts = {};  // where there are some
};

// "step 300/600  loss 1.848  val 1.893  45,500 tokens/s  33 s left", with experts "load 1.3  drop 2 %" before the
// speed. With a program's name before it and a cursor behind it is at most 79 columns wide up to a million steps; words
// become shorter, or are left out, where they must.
std::string step_text(const StepNow& now);
std::string left_text(double seconds);  // "33 s", "2 h 5 min", "30 h": of long times the minutes are noise
std::string loss_text(double loss);     // lines under one another have the same digits

}  // namespace trainyard::tools
