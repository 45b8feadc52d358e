// Makes the rounded constants of AdamW and dispatches.
#include "kernels/adamw/adamw.h"

#include "kernels/adamw/adamw_args.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

void adamw_update(tensor::Exec& exec, const AdamW& h, base::View parameter, base::View gradient, base::View m, base::View v, base::View working) {
  for (const auto* x : {&parameter, &gradient, &m, &v})
    TRAINYARD_ASSERT(x->dtype == base::DType::f32 && x->count() == parameter.count() && x->dense(), "AdamW of {} {} elements", x->count(), base::name_of(x->dtype));
  TRAINYARD_ASSERT(!working || (working.dtype == base::DType::bf16 && working.count() == parameter.count()), "working copy of {} elements", working.count());
  AdamWArgs a{mat(parameter), mat(gradient), mat(m), mat(v), mat(working), h.learning_rate, h.beta1, h.beta2,
              static_cast<float>(1.0 - static_cast<double>(h.beta1)), static_cast<float>(1.0 - static_cast<double>(h.beta2)),
              static_cast<float>(1.0 / h.bias1), static_cast<float>(1.0 / h.bias2), h.epsilon, h.weight_decay, h.gradient_scale, exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, adamw, a); });
}

}  // namespace trainyard::kernels
