// What a norm saves and needs.
#include "libtrain/plan/blocks/norm.h"

#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/conditions.h"

namespace trainyard::plan {

std::vector<SavedTensor> norm_tensors(const ModelConfig& m, const MicroShape& s, Pass pass) {
  std::vector<SavedTensor> out;
  out.reserve(8);
  if (pass == Pass::train) out.push_back({"input", s.dtype, s.own_rows(), m.hidden});
  if (subtracts_mean(m)) out.push_back({"mean", s.accumulation(), SavedTensor::one_dim, s.own_rows()});
  out.push_back({"rstd", s.accumulation(), SavedTensor::one_dim, s.own_rows()});
  out.push_back({"normed", s.dtype, s.own_rows(), m.hidden, Stays::unless_selective});
  return out;
}

SavedTensor norm_gradients_tensor(const ModelConfig& m, const MicroShape& s) {
  return {"norm_gradients", s.accumulation(), subtracts_mean(m) ? 2 : 1, m.hidden};
}

std::int64_t norm_workspace_bytes(const ModelConfig& m, const MicroShape& s) {
  const auto wide = base::size_of(s.accumulation());
  if (has_adapter(m)) return norm_scratch_bytes(s.own_rows(), m.hidden, wide);  // frozen: partial sums alone
  return s.sequence_parallel ? norm_shared_scratch_bytes(s.own_rows(), s.tensor, m.hidden, wide)
                             : norm_scratch_bytes(s.rows(), m.hidden, wide);
}

}  // namespace trainyard::plan
