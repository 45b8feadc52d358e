// The reduction lanes of a model that does not set them.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>

namespace trainyard::plan {

// On the CPU: the largest power of two up to 8 that divides kv_heads, ffn
// / 16, an expert's ffn / 16, and stored_vocabulary() / 16. On a GPU: 1, because products belong to a library. The
// vocabulary must be known.
std::int64_t default_lanes(const ModelConfig& model, base::DeviceKind device);

}  // namespace trainyard::plan
