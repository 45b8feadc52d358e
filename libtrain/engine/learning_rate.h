// Learning-rate schedules: a pure function of the number of completed optimizer steps.
#pragma once

#include "libtrain/base/setting_text.h"
#include "libtrain/plan/problems.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::engine {

// Linear warm-up from `start` over warmup_steps, then the named decay to `final` at total_steps. Constant after the
// end.
//   constant             peak
//   linear, cosine       from peak to final between the end of the warm-up and total_steps; with decay_steps the decay
//                        takes that long, then the rate is final (Loshchilov & Hutter 2017 for cosine)
//   polynomial           the same with (1 - p)^power, p from 0 to 1 (PolynomialLR of PyTorch)
//   one-cycle            as cosine, and the warm-up rises by half a cosine: its first step has `start` (Smith & Topin
//                        2018; OneCycleLR of PyTorch without its cycle of the momentum)
//   cosine-restarts      cosine from peak to final in cycles, the first of restart_steps, each restart_factor times as
//                        long as the one before; the last step of a cycle has `final` (Loshchilov & Hutter 2017)
//   wsd                  warm-up, stable, then linear to final over the last decay_steps (Hu et al. 2024)
//   wsd-cosine           the same with half a cosine
//   wsd-exponential      the same with a constant factor for each step: peak (final / peak)^p, p from 0 to 1
//   wsd-minus-sqrt       the same with peak + (final - peak) sqrt(p) (Haegele et al. 2024)
//   inverse-sqrt         peak * sqrt(w / t), w = max(1, warmup_steps) (Vaswani et al. 2017, equation 3)
// The rate is never 0: at the end of a decay to 0, the last step takes the rate of half a step before.
struct LearningRate {
  std::string schedule = "cosine";
  double peak = 1e-3, final = 0;
  std::int64_t warmup_steps = 0, decay_steps = 0, total_steps = 1;
  double start = 0;                                    // rate at which the warm-up begins
  std::int64_t restart_steps = 0, restart_factor = 1;  // of cosine-restarts
  double power = 1;                                    // of polynomial

  // The rate of the step after `completed` finished steps. The first step is already one of warmup_steps above `start`.
  double at(std::int64_t completed) const;

 private:
  double at_time(double t) const;  // evaluates the formulas t steps from the beginning
};

std::vector<std::string> schedule_names();
// The schedule that a text names, with the numbers that belong to it: "polynomial:2" has a power,
// "cosine-restarts:1000,2" the steps of its first cycle and a factor, which may be left out where it is 1. UsageError
// for other names, for missing numbers, and for numbers that the schedule does not take. `spelled` is what the user
// wrote before the text (base/fields.h).
LearningRate schedule_of(const std::string& text, const std::string& spelled = base::setting_name("lr-schedule"));
std::string schedule_text(const LearningRate& schedule);  // in one spelling: "cosine-restarts:1000,1"
std::vector<plan::Problem> problems(const LearningRate& schedule);

}  // namespace trainyard::engine
