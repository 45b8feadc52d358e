// Checks and dispatches element-wise copies.
#include "kernels/cast/cast.h"

#include "kernels/cast/cast_args.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

// A dense view becomes one long row, so that the threads split it evenly.
Mat long_row(const base::View& v) {
  auto m = mat(v);
  if (v && v.dense()) m = {v.data, 1, v.count(), v.count(), m.type};
  return m;
}

void run(tensor::Exec& exec, CastArgs args) {
  args.threads = exec.threads();
  exec.run([&exec, args] { TRAINYARD_CALL(exec, cast, args); });
}

void run_pair(tensor::Exec& exec, Elementwise what, base::View from, base::View to) {
  TRAINYARD_ASSERT(from.rows() == to.rows() && from.cols() == to.cols(), "{} x {} into {} x {}", from.rows(),
                   from.cols(), to.rows(), to.cols());
  if (from.dense() && to.dense()) run(exec, {long_row(from), long_row(to), what, 0, 1});
  else run(exec, {mat(from), mat(to), what, 0, 1});
}

}  // namespace

void cast(tensor::Exec& exec, base::View from, base::View to) {
  require_types(from, working_types, "cast", "from");
  require_types(to, working_types, "cast", "to");
  run_pair(exec, Elementwise::cast, from, to);
}

void copy(tensor::Exec& exec, base::View from, base::View to) {
  require_working_type("copy", {{"from", from}, {"to", to}});
  run_pair(exec, Elementwise::cast, from, to);
}

void fill(tensor::Exec& exec, base::View to, double value) {
  require_types(to, working_types, "fill", "to");
  run(exec, {{}, long_row(to), Elementwise::fill, value, 1});
}

void add(tensor::Exec& exec, base::View y, base::View x) {
  require_working_type("add", {{"y", y}, {"x", x}});
  run_pair(exec, Elementwise::add, x, y);
}

}  // namespace trainyard::kernels
