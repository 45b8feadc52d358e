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
void run(tensor::Exec& exec, Activation form, const Operands& o) {
  for (const auto& v : {o.up, o.dy, base::ConstView(o.y), base::ConstView(o.dup)})
    if (v) require_shape(v, o.x.rows(), o.x.cols(), "activation");
  const bool relu = form == Activation::relu || form == Activation::relu_squared;
  TRAINYARD_ASSERT(o.up ? !relu : form != Activation::silu, "activation {} {} a gate", static_cast<int>(form),
                   o.up ? "as" : "without");
  if (o.x.count() == 0) return;
  const ActivationArgs a{.form = form,
                         .x = mat(o.x),
                         .up = mat(o.up),
                         .dy = mat(o.dy),
                         .y = mat(o.y),
                         .dup = mat(o.dup),
                         .threads = exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, activation, a); });
}

}  // namespace

void activation_forward(tensor::Exec& exec, Activation form, base::ConstView x, base::View y) {
  require_working_type("activation_forward", {{"x", x}, {"y", y}});
  run(exec, form, {.x = x, .y = y});
}
void activation_backward(tensor::Exec& exec, Activation form, base::ConstView x, base::ConstView dy, base::View dx) {
  require_working_type("activation_backward", {{"x", x}, {"dy", dy}, {"dx", dx}});
  run(exec, form, {.x = x, .dy = dy, .y = dx});
}
void gated_forward(tensor::Exec& exec, Activation form, base::ConstView gate, base::ConstView up, base::View y) {
  require_working_type("gated_forward", {{"gate", gate}, {"up", up}, {"y", y}});
  run(exec, form, {.x = gate, .up = up, .y = y});
}
void gated_backward(tensor::Exec& exec, const GatedBackward& g) {
  require_working_type("gated_backward",
                       {{"gate", g.gate}, {"up", g.up}, {"dy", g.dy}, {"dgate", g.dgate}, {"dup", g.dup}});
  run(exec, g.form, {.x = g.gate, .up = g.up, .dy = g.dy, .y = g.dgate, .dup = g.dup});
}

}  // namespace trainyard::kernels
