// The rule of AdamW with the numbers of the plain model.
#pragma once

#include "kernels/update/update.h"
#include "tests/params/plain_model.h"

namespace trainyard::test {

inline kernels::AdamW rule_of(const PlainAdamW& plain) {
  kernels::AdamW h;
  h.learning_rate = plain.rate, h.beta1 = plain.beta1, h.beta2 = plain.beta2, h.epsilon = plain.epsilon;
  h.weight_decay = plain.decay, h.gradient_scale = plain.scale, h.bias1 = plain.bias1, h.bias2 = plain.bias2;
  return h;
}

}  // namespace trainyard::test
