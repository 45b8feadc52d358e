// Checks and dispatches activations.
#include "kernels/activation/activation.h"

#include "kernels/activation/activation_args.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

void run(tensor::Exec& exec, ActivationKernel kernel, base::View x, base::View up, base::View dy, base::View y,
         base::View dup) {
  for (const auto* v : {&up, &dy, &y, &dup})
    if (*v) require_shape(*v, x.rows(), x.cols(), "activation");
  ActivationArgs a{kernel, mat(x), mat(up), mat(dy), mat(y), mat(dup), exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, activation, a); });
}

}  // namespace

void gelu_forward(tensor::Exec& exec, Gelu form, base::View x, base::View y) {
  require_working_type("gelu_forward", {{"x", x}, {"y", y}});
  run(exec, form == Gelu::tanh ? ActivationKernel::gelu_forward : ActivationKernel::gelu_erf_forward, x, {}, {}, y, {});
}
void gelu_backward(tensor::Exec& exec, Gelu form, base::View x, base::View dy, base::View dx) {
  require_working_type("gelu_backward", {{"x", x}, {"dy", dy}, {"dx", dx}});
  run(exec, form == Gelu::tanh ? ActivationKernel::gelu_backward : ActivationKernel::gelu_erf_backward, x, {}, dy, dx,
      {});
}
void swiglu_forward(tensor::Exec& exec, base::View gate, base::View up, base::View y) {
  require_working_type("swiglu_forward", {{"gate", gate}, {"up", up}, {"y", y}});
  run(exec, ActivationKernel::swiglu_forward, gate, up, {}, y, {});
}
void swiglu_backward(tensor::Exec& exec, base::View gate, base::View up, base::View dy, base::View dgate,
                     base::View dup) {
  require_working_type("swiglu_backward", {{"gate", gate}, {"up", up}, {"dy", dy}, {"dgate", dgate}, {"dup", dup}});
  run(exec, ActivationKernel::swiglu_backward, gate, up, dy, dgate, dup);
}

}  // namespace trainyard::kernels
