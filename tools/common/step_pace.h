// StepPace: how fast a run goes. train asks it about its own steps, inspect about the lines of a run that it watches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace trainyard::tools {

// What one step took, as a line of metrics has it. What is not known is not a number.
struct StepTimes {
  double seconds = 0, validation_seconds = 0;  // of the step; of the validation behind it, which is not in the first
  double tokens_per_second = 0;                // of the step
};

// Fed with every step of one start of a run, in order. Speed and seconds a step are means over the same steps, so that
// one times the other is the tokens of a step.
class StepPace {
 public:
  static constexpr std::size_t window = 100;  // steps that the means are over
  void add(const StepTimes& step);

  std::int64_t steps() const { return static_cast<std::int64_t>(last_.size()); }  // in the window
  double step_seconds() const;       // with what a step waits for, as copies for a checkpoint; without validations
  double tokens_per_second() const;  // the same
  // Of so many steps more. With validations: their mean is over the whole start, since the window may have none.
  double seconds_left(std::int64_t steps) const;

 private:
  std::deque<StepTimes> last_;
  double validation_seconds_ = 0;
  std::int64_t all_ = 0;
};

}  // namespace trainyard::tools
