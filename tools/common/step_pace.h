// StepPace: how fast a run goes. train uses it for its own steps, inspect for the lines of a run that it watches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace trainyard::tools {

// The times of one step, as in a line of metrics. Unknown values are NaN.
struct StepTimes {
  double seconds = 0, validation_seconds = 0;  // of the step alone; of the validation after it
  double tokens_per_second = 0;                // of the step
};

// It must get every step of one start of a run, in order. Speed and seconds of a step are means over the same steps, so
// their product is the tokens of a step.
class StepPace {
 public:
  static constexpr std::size_t window = 100;  // the means are over at most this many steps
  void add(const StepTimes& step);

  std::int64_t steps() const { return static_cast<std::int64_t>(last_.size()); }  // steps in the window
  double step_seconds() const;       // with waits, such as copies for a checkpoint, but without validations
  double tokens_per_second() const;  // of the same steps
  // The time for `steps` more steps, with validations. The mean of validations is over the whole start, since the
  // window may have none.
  double seconds_left(std::int64_t steps) const;

 private:
  std::deque<StepTimes> last_;
  double validation_seconds_ = 0;
  std::int64_t all_ = 0;
};

}  // namespace trainyard::tools
