// The largest number of lanes that fits a model.
#include "libtrain/plan/spec/lanes.h"

#include "libtrain/plan/spec/layer_model.h"

namespace trainyard::plan {

std::int64_t default_lanes(const ModelConfig& m, base::DeviceKind device) {
  if (device == base::DeviceKind::cuda) return 1;
  std::int64_t lanes = 8;
  const auto expert = has_experts(m) ? expert_width(m) : m.ffn;
  while (m.kv_heads % lanes != 0 || m.ffn % (16 * lanes) != 0 || expert % (16 * lanes) != 0 ||
         m.stored_vocabulary() % (16 * lanes) != 0) {
    if (lanes == 1) return 1;
    lanes /= 2;
  }
  return lanes;
}

}  // namespace trainyard::plan
