// Composes the bytes of states, activations and workspace.
#include "libtrain/plan/memory.h"

#include "libtrain/base/error.h"

namespace trainyard::plan {

std::int64_t MemoryBytes::arenas() const {
  std::int64_t n = 0;
  for (auto b : categories) n += b;
  return n;
}

std::int64_t reserve_bytes(const MicroShape& micro) {
  if (micro.device == base::DeviceKind::cuda) return std::int64_t{1} << 30;
  return (std::int64_t{384} << 20) + micro.threads * (std::int64_t{16} << 20);
}

MemoryBytes rank_memory(const ModelConfig& model, const StateShape& states, const MicroShape& micro,
                        Recompute recompute, int slots) {
  const UnitTable table(model, states.topology);
  const auto s = state_bytes(table, states);
  MemoryBytes out;
  out.categories = {s.parameters,
                    s.gathered_units,
                    s.gradients,
                    s.unit_gradients,
                    s.optimizer,
                    slots * activation_bytes(model, micro, Pass::train, recompute),
                    s.communication_staging + tensor_staging_bytes(model, micro),
                    workspace_bytes(model, micro, Pass::train),
                    s.save_snapshot};
  out.reserve = reserve_bytes(micro);
  out.on_host = micro.device == base::DeviceKind::cuda ? s.save_snapshot : 0;
  return out;
}

double model_state_bytes(std::int64_t parameters, int n, int stage, base::DType working, base::DType gradient) {
  TRAINYARD_ASSERT(stage >= 0 && stage <= 3 && n >= 1 && parameters >= 0, "stage {} n {} parameters {}", stage, n,
                   parameters);
  const std::int64_t w = base::size_of(working), g = base::size_of(gradient), k = w == 2 ? 12 : 8;
  const std::int64_t cut = (stage >= 1 ? k : 0) + (stage >= 2 ? g : 0) + (stage >= 3 ? w : 0), whole = w + g + k - cut;
  return static_cast<double>(whole * parameters) + static_cast<double>(cut * parameters) / n;
}

}  // namespace trainyard::plan
