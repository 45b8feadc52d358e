// FLOPs of matrix products and attention.
#include "libtrain/plan/cost/flops.h"

namespace trainyard::plan {

double step_flops(const ModelPart& part, std::int64_t sequences, const Lengths& whole, const Recomputation& recompute) {
  // Forward counts once and backward twice, or less with frozen weights. A recomputed layer repeats the part of forward
  // that backward reads.
  double token = 0;
  for (const auto& segment : segments(part, recompute)) {
    const bool again = segment.recompute == Recompute::layers;
    const auto lengths = segment.lengths(whole);
    token += static_cast<double>(segment.times) * segment.rows_per_token(whole) *
             (segment.kind->training_flops(segment.model, lengths) +
              (again ? segment.kind->recompute_flops(segment.model, lengths) : 0));
  }
  return static_cast<double>(sequences) * static_cast<double>(whole.sequence) * token;
}

}  // namespace trainyard::plan
