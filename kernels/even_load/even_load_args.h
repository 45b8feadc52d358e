// The step of a gate's biases as a GPU sees it.
#pragma once

#include "kernels/step_numbers/step_numbers_args.h"

#include <cstdint>

namespace trainyard::kernels {

struct EvenLoadArgs {
  float* bias;
  const float* loads;
  std::int64_t n;
  double mean;
  float rate;
  const StepNumbers* numbers;
};

TRAINYARD_ANYWHERE inline float evened(float bias, float load, double mean, float rate) {
  return load < mean ? bias + rate : load > mean ? bias - rate : bias;
}

}  // namespace trainyard::kernels
