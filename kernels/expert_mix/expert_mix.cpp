// Checks and dispatches the mix.
#include "kernels/expert_mix/expert_mix.h"

#include "kernels/check.h"
#include "kernels/expert_mix/expert_mix_args.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

ExpertMixArgs mix_args(const tensor::Exec& exec, const char* operation, base::ConstView logits, base::ConstView a,
                       base::ConstView b) {
  require_shape(logits, a.rows(), 2, "coefficients");
  require_shape(b, a.rows(), a.cols(), "mix");
  require_working_type(operation, {{"a", a}, {"b", b}});
  require_type(logits, accumulation_of(a.dtype), operation, "logits");
  ExpertMixArgs args;
  args.logits = mat(logits), args.a = mat(a), args.b = mat(b), args.threads = exec.threads();
  return args;
}

void run_mix(tensor::Exec& exec, const ExpertMixArgs& args) {
  if (args.a.rows == 0) return;
  exec.run([&exec, args] { TRAINYARD_CALL(exec, expert_mix, args); });
}

}  // namespace

void expert_mix(tensor::Exec& exec, base::ConstView logits, base::ConstView a, base::ConstView b, base::View out) {
  require_shape(out, a.rows(), a.cols(), "mix");
  auto args = mix_args(exec, "expert_mix", logits, a, b);
  require_type(out, a.dtype, "expert_mix", "out");
  args.out = mat(out);
  run_mix(exec, args);
}

void expert_mix_backward(tensor::Exec& exec, const ExpertMixBackward& m) {
  for (const auto& v : {m.dout, base::ConstView(m.da), base::ConstView(m.db)})
    require_shape(v, m.a.rows(), m.a.cols(), "gradient of a mix");
  require_shape(m.d_logits, m.a.rows(), 2, "gradient of coefficients");
  require_working_type("expert_mix_backward", {{"a", m.a}, {"dout", m.dout}, {"da", m.da}, {"db", m.db}});
  require_type(m.d_logits, accumulation_of(m.a.dtype), "expert_mix_backward", "d_logits");
  auto args = mix_args(exec, "expert_mix_backward", m.logits, m.a, m.b);
  args.dout = mat(m.dout), args.d_logits = mat(m.d_logits), args.da = mat(m.da), args.db = mat(m.db);
  run_mix(exec, args);
}

}  // namespace trainyard::kernels
