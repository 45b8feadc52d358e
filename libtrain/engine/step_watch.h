// StepWatch: compares the times of a run's steps with the interval that its plan predicts.
#pragma once

#include "libtrain/engine/metrics.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::engine {

// The step time that the plan in a file predicts for a run, as far as the run has the layout of that file. Else nothing
// is known.
plan::PredictedStep prediction_for(const std::optional<plan::Plan>& as_read, const plan::Plan& of_run);

// Used on rank 0. The first step of a start is not counted: it touches memory for the first time.
class StepWatch {
 public:
  // In a run of smaller steps than the largest (a batch ramp) only the largest ones are compared.
  explicit StepWatch(plan::PredictedStep predicted) : predicted_(std::move(predicted)) {}

  // Sets predicted_step_seconds of a step of the largest size. A sentence where this step and the ones before it are
  // outside the interval: the third in a row. It names what differs most: computing, communication that nothing hides,
  // or waiting for the disk. "" otherwise, and for further steps in a row.
  std::string look(StepMetrics& m, bool largest);

  // "step time: 1.21 s in the mean of 40 steps, 38 of them within the 1.05 to 1.38 s that the plan predicts for mine".
  // Empty if nothing was compared.
  std::string text() const;

 private:
  plan::PredictedStep predicted_;
  std::int64_t steps_ = 0, inside_ = 0, outside_in_a_row_ = 0;
  bool began_ = false;
  double seconds_ = 0;
};

}  // namespace trainyard::engine
