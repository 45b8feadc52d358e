// Checks and dispatches the mix.
#include "kernels/expert_mix/expert_mix.h"

#include "kernels/check.h"
#include "kernels/expert_mix/expert_mix_args.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

ExpertMixArgs mix_args(const tensor::Exec& exec, const char* operation, base::View logits, base::View a, base::View b) {
  require_shape(logits, a.rows(), 2, "coefficients");
  require_shape(b, a.rows(), a.cols(), "mix");
  require_working_type(operation, {{"a", a}, {"b", b}});
  require_type(logits, accumulation_of(a.dtype), operation, "logits");
  ExpertMixArgs args;
  args.logits = mat(logits), args.a = mat(a), args.b = mat(b), args.threads = exec.threads();
  return args;
}

void run_mix(tensor::Exec& exec, const ExpertMixArgs& args) {
  exec.run([&exec, args] { TRAINYARD_CALL(exec, expert_mix, args); });
}

}  // namespace

void expert_mix(tensor::Exec& exec, base::View logits, base::View a, base::View b, base::View out) {
  require_shape(out, a.rows(), a.cols(), "mix");
  auto args = mix_args(exec, "expert_mix", logits, a, b);
  require_type(out, a.dtype, "expert_mix", "out");
  args.out = mat(out);
  run_mix(exec, args);
}

void expert_mix_backward(tensor::Exec& exec, base::View logits, base::View a, base::View b, base::View dout,
                         base::View d_logits, base::View da, base::View db) {
  for (const auto& v : {dout, da, db}) require_shape(v, a.rows(), a.cols(), "gradient of a mix");
  require_shape(d_logits, a.rows(), 2, "gradient of coefficients");
  require_working_type("expert_mix_backward", {{"a", a}, {"dout", dout}, {"da", da}, {"db", db}});
  require_type(d_logits, accumulation_of(a.dtype), "expert_mix_backward", "d_logits");
  auto args = mix_args(exec, "expert_mix_backward", logits, a, b);
  args.dout = mat(dout), args.d_logits = mat(d_logits), args.da = mat(da), args.db = mat(db);
  run_mix(exec, args);
}

}  // namespace trainyard::kernels
