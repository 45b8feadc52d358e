// FLOPs of matrix products and attention.
#include "libtrain/plan/flops.h"

namespace trainyard::plan {

double step_flops(const ModelConfig& m, std::int64_t sequences, std::int64_t sequence, Recompute recompute) {
  double token = 0;  // forward once, backward as much as two, a recomputed layer forward again
  for (const auto& segment : segments(m)) {
    const double passes = recompute == Recompute::layers && segment.part == Part::layers ? 4 : 3;
    token += passes * static_cast<double>(segment.times) * segment.kind->forward_flops(m, sequence);
  }
  return static_cast<double>(sequences) * static_cast<double>(sequence) * token;
}

}  // namespace trainyard::plan
