// What --master remainder does not go with.
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/decision_problems.h"

namespace trainyard::plan {

// A remainder is what bf16 lacks of f32, and is joined with it where an update of elements reads a weight.
void master_problems(const Plan& p, std::vector<Problem>& out) {
  if (p.master == MasterFormat::f32) return;
  if (p.dtype == base::DType::f32)
    out.push_back({base::text("$master remainder is for weights in bf16: f32 weights are their own masters"),
                   base::text("$dtype bf16, or $master f32")});
  else if (p.dtype != base::DType::bf16)
    out.push_back({base::text("$master remainder is for weights in bf16: {} has another range than f32, and 2 bytes do "
                              "not say what it lacks",
                              base::name_of(p.dtype)),
                   base::text("$dtype bf16, or $master f32")});
  if (optimizer_kind(p.optimizer).has_parameter_norms())
    out.push_back(
        {base::text("$optimizer {} takes norms of f32 masters, and $master remainder keeps none", p.optimizer),
         base::text("$master f32, or another $optimizer")});
  if (p.ema > 0)
    out.push_back({base::text("$ema {} averages f32 masters, and $master remainder keeps none", p.ema),
                   base::text("$master f32, or leave $ema out")});
}

}  // namespace trainyard::plan
