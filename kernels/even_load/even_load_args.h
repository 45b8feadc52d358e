// Arguments of the update of a gate's biases, as plain data for the GPU module.
#pragma once

#include "kernels/step_numbers/step_numbers_args.h"
#include "kernels/update/remainder_args.h"

#include <cstdint>

namespace trainyard::kernels {

struct EvenLoadArgs {
  void* bias;  // f32, or bf16 if there is a remainder
  const float* loads;
  std::int64_t n;
  double mean;
  float rate;
  const StepNumbers* numbers;
  RemainderPart remainder;
};

TRAINYARD_ANYWHERE inline float evened(float bias, float load, double mean, float rate) {
  return load < mean ? bias + rate : load > mean ? bias - rate : bias;
}

}  // namespace trainyard::kernels
