// Checks and dispatches activations.
#include "kernels/activation/activation.h"

#include "kernels/activation/activation_args.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

// An absent operand is empty.
struct Operands {
  base::ConstView x;
  base::ConstView up = {}, dy = {};
  base::View y;  // the result, or the gradient of x
  base::View dup = {};
};
void run(tensor::Exec& exec, ActivationKernel kernel, const Operands& o) {
  for (const auto& v : {o.up, o.dy, base::ConstView(o.y), base::ConstView(o.dup)})
    if (v) require_shape(v, o.x.rows(), o.x.cols(), "activation");
  if (o.x.count() == 0) return;
  const ActivationArgs a{.kernel = kernel,
                         .x = mat(o.x),
                         .up = mat(o.up),
                         .dy = mat(o.dy),
                         .y = mat(o.y),
                         .dup = mat(o.dup),
                         .threads = exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, activation, a); });
}

}  // namespace

void gelu_forward(tensor::Exec& exec, Gelu form, base::ConstView x, base::View y) {
  require_working_type("gelu_forward", {{"x", x}, {"y", y}});
  run(exec, form == Gelu::tanh ? ActivationKernel::gelu_forward : ActivationKernel::gelu_erf_forward, {.x = x, .y = y});
}
void gelu_backward(tensor::Exec& exec, Gelu form, base::ConstView x, base::ConstView dy, base::View dx) {
  require_working_type("gelu_backward", {{"x", x}, {"dy", dy}, {"dx", dx}});
  run(exec, form == Gelu::tanh ? ActivationKernel::gelu_backward : ActivationKernel::gelu_erf_backward,
      {.x = x, .dy = dy, .y = dx});
}
void swiglu_forward(tensor::Exec& exec, base::ConstView gate, base::ConstView up, base::View y) {
  require_working_type("swiglu_forward", {{"gate", gate}, {"up", up}, {"y", y}});
  run(exec, ActivationKernel::swiglu_forward, {.x = gate, .up = up, .y = y});
}
void swiglu_backward(tensor::Exec& exec, base::ConstView gate, base::ConstView up, base::ConstView dy, base::View dgate,
                     base::View dup) {
  require_working_type("swiglu_backward", {{"gate", gate}, {"up", up}, {"dy", dy}, {"dgate", dgate}, {"dup", dup}});
  run(exec, ActivationKernel::swiglu_backward, {.x = gate, .up = up, .dy = dy, .y = dgate, .dup = dup});
}

}  // namespace trainyard::kernels
