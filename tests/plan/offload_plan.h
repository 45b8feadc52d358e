// A small plan with states on disk, whose flat groups are counted by hand.
#pragma once

#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/spec/offload.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

namespace trainyard::plan {

// One rank, one sequence of 32 tokens a step. Flat groups of 8,192 (tokens), 2,048 (positions), three times 49,984
// (layers) and 128 elements (final norm): a layer has 12 h^2 weights and 13 h numbers in biases and norms, h = 64.
inline Plan small_offload_plan(const char* offload, int zero, base::DType dtype = base::DType::f32,
                               base::DeviceKind device = base::DeviceKind::cpu) {
  Plan p;
  p.device = device;
  p.model = preset("gpt2-nano");
  p.model.layers = 3, p.model.hidden = 64, p.model.heads = p.model.kv_heads = 4, p.model.ffn = 256;
  p.model.context = 32, p.model.vocabulary = 128, p.model.lanes = 1;
  p.zero = zero, p.dtype = dtype, p.offload = offload_of_text(offload, "test");
  p.sequence = 32;
  EXPECT_TRUE(decision_problems(p).empty()) << text_of(decision_problems(p));
  predict(p);
  return p;
}

}  // namespace trainyard::plan
