// Checks and dispatches element-wise copies.
#include "kernels/cast/cast.h"

#include "kernels/cast/cast_args.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

// A dense view becomes one long row, so that the threads split it evenly.
template <class Memory> MatOf<Memory> long_row(const base::ViewOf<Memory>& v) {
  auto m = mat(v);
  if (v && v.dense()) m.rows = 1, m.cols = m.pitch = v.count();
  return m;
}

void run(tensor::Exec& exec, CastArgs args) {
  args.threads = exec.threads();
  exec.run([&exec, args] { TRAINYARD_CALL(exec, cast, args); });
}

void run_pair(tensor::Exec& exec, Elementwise what, base::ConstView from, base::View to) {
  TRAINYARD_ASSERT(from.rows() == to.rows() && from.cols() == to.cols(), "{} x {} into {} x {}", from.rows(),
                   from.cols(), to.rows(), to.cols());
  if (to.count() == 0) return;
  if (from.dense() && to.dense()) run(exec, {.from = long_row(from), .to = long_row(to), .what = what});
  else run(exec, {.from = mat(from), .to = mat(to), .what = what});
}

}  // namespace

void cast(tensor::Exec& exec, base::ConstView from, base::View to) {
  require_types(from, working_types, "cast", "from");
  require_types(to, working_types, "cast", "to");
  run_pair(exec, Elementwise::cast, from, to);
}

void copy(tensor::Exec& exec, base::ConstView from, base::View to) {
  require_types(from, working_types, "copy", "from");
  require_type(to, from.dtype, "copy", "to");
  run_pair(exec, Elementwise::cast, from, to);
}

void fill(tensor::Exec& exec, base::View to, double value) {
  require_types(to, working_types, "fill", "to");
  if (to.count() == 0) return;
  run(exec, {.to = long_row(to), .what = Elementwise::fill, .value = value});
}

void round_to_bf16(tensor::Exec& exec, base::View values) {
  require_type(values, base::DType::f32, "round_to_bf16", "values");
  if (values.count() == 0) return;
  run(exec, {.to = long_row(values), .what = Elementwise::round_to_bf16});
}

void scale(tensor::Exec& exec, base::View y, double factor) {
  require_types(y, working_types, "scale", "y");
  if (y.count() == 0) return;
  run(exec, {.to = long_row(y), .what = Elementwise::scale, .value = factor});
}

void add(tensor::Exec& exec, base::View y, base::ConstView x) {
  require_working_type("add", {{"y", y}, {"x", x}});
  run_pair(exec, Elementwise::add, x, y);
}

}  // namespace trainyard::kernels
