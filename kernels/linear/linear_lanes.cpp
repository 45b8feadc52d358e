// Products in lanes: one pass of the product on a CPU, several calls of the library on a GPU.
#include "kernels/check.h"
#include "kernels/gemm/gemm_run.h"
#include "kernels/lane_sum/lane_sum.h"
#include "kernels/linear/linear.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <array>

namespace trainyard::kernels {

namespace {

constexpr int most_parts = 3;

// The product to compute: the sum of op(a) b over parts.
struct Sum {
  ProductNames names;
  std::array<LinearPart, most_parts> part = {};
  int count = 0;
  int trans_b;  // 1 in forward, where the weight is [out, in]
  std::span<const LinearPart> parts() const { return std::span(part).first(base::size(count)); }
  // The slice of part p that belongs to the lane.
  LinearPart slice(int p, std::int64_t lane, std::int64_t lanes) const {
    const auto& whole = base::at(part, p);
    const auto k = whole.dy.cols() / lanes;
    return {whole.dy.columns(lane * k, k),
            trans_b ? whole.weight.columns(lane * k, k) : whole.weight.row_range(lane * k, k)};
  }
};

bool neighbours(const LinearPart& a, const LinearPart& b) {
  const auto k = a.dy.cols();
  return a.dy.pitch == b.dy.pitch && a.dy.columns(k, 0).data == b.dy.data && a.weight.pitch == b.weight.pitch &&
         a.weight.row_range(k, 0).data == b.weight.data;
}

Sum joined(const Sum& sum) {
  Sum out{.names = sum.names, .trans_b = sum.trans_b};
  for (const auto& p : sum.parts()) {
    if (out.count > 0 && neighbours(base::at(out.part, out.count - 1), p)) {
      auto& last = base::at(out.part, out.count - 1);
      last.dy = last.dy.columns(0, last.dy.cols() + p.dy.cols());
      last.weight = last.weight.row_range(0, last.weight.rows() + p.weight.rows());
    } else {
      base::at(out.part, out.count++) = p;
    }
  }
  return out;
}

// `to` = the sum of one lane. With several parts, `to` has the accumulation dtype.
void add_up(tensor::Exec& exec, const Sum& sum, std::int64_t lane, std::int64_t lanes, base::View to) {
  for (int p = 0; p < sum.count; ++p) {
    const auto slice = sum.slice(p, lane, lanes);
    auto g = product_of(sum.names, slice.dy, 0, slice.weight, sum.trans_b, to);
    g.accumulate = p > 0;
    run_gemm(exec, g, sum.names);
  }
}

void run_on_gpu(tensor::Exec& exec, const Sum& sum, std::int64_t lanes, base::ConstView bias, base::View c) {
  const bool narrow = base::is_narrow(c.dtype);
  if (lanes == 1 && sum.count == 1) {
    auto g = product_of(sum.names, sum.part[0].dy, 0, sum.part[0].weight, sum.trans_b, c);
    g.bias = mat(bias);
    run_gemm(exec, g, sum.names);
  } else if (lanes == 1 && !narrow) {
    add_up(exec, sum, 0, 1, c);
  } else {
    exec.run([&exec, &sum, lanes, bias, c] {
      tensor::ArenaScope scope(exec.scratch());
      const auto m = c.rows(), n = c.cols();
      const auto pieces = exec.scratch().allocate(accumulation_of(c.dtype), {lanes, m * n});
      for (std::int64_t l = 0; l < lanes; ++l) add_up(exec, sum, l, lanes, pieces.row_range(l, 1).reshaped({m, n}));
      lane_sum(exec, pieces, bias, 0, c);
    });
  }
}

void run_on_cpu(tensor::Exec& exec, const Sum& sum, std::int64_t lanes, base::ConstView bias, base::View c) {
  auto g = product_of(sum.names, sum.part[0].dy, 0, sum.part[0].weight, sum.trans_b, c);
  for (int p = 1; p < sum.count; ++p) {
    const auto& part = base::at(sum.part, p);
    g.more[p - 1] = {.a = mat(part.dy), .b = mat(part.weight)};
  }
  g.parts = sum.count;
  g.lanes = lanes;
  g.bias = mat(bias);
  run_gemm(exec, g, sum.names);
}

// Checks that the operands of all parts fit the lanes and have types that go together.
void require_parts(const Sum& sum, std::int64_t lanes, const base::View& c) {
  const auto& n = sum.names;
  const auto& first = sum.part[0].dy;
  for (const auto& p : sum.parts()) {
    require_working_type(n.operation, {{n.a, first}, {n.a, p.dy}, {n.b, p.weight}});
    TRAINYARD_ASSERT(lanes >= 1 && p.dy.cols() % lanes == 0, "{}: {} lanes over {}", n.operation, lanes, p.dy.cols());
  }
  require_type_of_product(c, first.dtype, n.operation, n.c);
}

}  // namespace

void linear_forward_lanes(tensor::Exec& exec, base::ConstView x, base::ConstView weight, base::ConstView bias,
                          std::int64_t lanes, base::View y) {
  const Sum sum{.names = {.operation = "linear_forward_lanes", .a = "x", .b = "weight", .c = "y"},
                .part = {LinearPart{.dy = x, .weight = weight}},
                .count = 1,
                .trans_b = 1};
  require_parts(sum, lanes, y);
  if (bias) require_shape(bias, 1, weight.rows(), "linear_forward_lanes: bias");
  require_type(bias, y.dtype, sum.names.operation, "bias");
  if (exec.on_gpu()) run_on_gpu(exec, sum, lanes, bias, y);
  else run_on_cpu(exec, sum, lanes, bias, y);
}

void linear_backward_input_lanes(tensor::Exec& exec, std::span<const LinearPart> parts, std::int64_t lanes,
                                 base::View dx, Neighbours neighbours) {
  TRAINYARD_ASSERT(!parts.empty() && std::ssize(parts) <= most_parts, "{} parts", parts.size());
  Sum sum{.names = {.operation = "linear_backward_input_lanes", .a = "dy", .b = "weight", .c = "dx"},
          .count = static_cast<int>(parts.size()),
          .trans_b = 0};
  std::ranges::copy(parts, sum.part.begin());
  require_parts(sum, lanes, dx);
  if (!exec.on_gpu()) run_on_cpu(exec, sum, lanes, {}, dx);
  else run_on_gpu(exec, lanes == 1 && neighbours == Neighbours::together ? joined(sum) : sum, lanes, {}, dx);
}

}  // namespace trainyard::kernels
