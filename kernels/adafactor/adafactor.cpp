// Checks the views of Adafactor's passes, splits long parts so that no digit overflows, and dispatches.
#include "kernels/adafactor/adafactor.h"

#include "kernels/adafactor/adafactor_args.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/update/trust_ratio.h"

#include <algorithm>
#include <cmath>

namespace trainyard::kernels {

namespace {

// Squares between two carries: each adds less than 2^32 to a digit.
constexpr std::int64_t most_adafactor_squares = std::int64_t{1} << 30;

void require_lines(const base::ConstView& lines, std::int64_t count, const char* operation, const char* name) {
  require_type(lines, base::DType::i64, operation, name);
  TRAINYARD_ASSERT(lines.dense() && lines.count() == count * square_sum_limbs, "{}: {} digits of {} {}", operation,
                   lines.count(), count, name);
}

void require_floats(const base::ConstView& x, std::int64_t count, const char* operation, const char* name) {
  require_type(x, base::DType::f32, operation, name);
  TRAINYARD_ASSERT(x.dense() && x.count() == count, "{}: {} of {} elements for {}", operation, name, x.count(), count);
}

// Checks elements of a held matrix with so many rows.
void require_held(const HeldElements& held, std::int64_t count, std::int64_t rows, const char* operation) {
  TRAINYARD_ASSERT(held.cols >= 1 && held.first >= 0 && held.first + count <= rows * held.cols,
                   "{}: elements {} to {} of {} x {}", operation, held.first, held.first + count, rows, held.cols);
}

void require_part(const AdafactorPart& part, std::int64_t count, const char* operation) {
  require_floats(part.gradient, count, operation, "gradient");
  require_type(part.row_factors, base::DType::f32, operation, "row_factors");
  TRAINYARD_ASSERT(part.row_factors.dense(), "{}: row_factors with gaps", operation);
  require_floats(part.column_factors, part.held.cols, operation, "column_factors");
  require_held(part.held, count, part.row_factors.count(), operation);
}

// Calls of_gpu(args) with the numbers of the step, or of_cpu(args) with its scale unless the step is not finite.
template <class Args, class OnGpu, class OnCpu>
void run_adafactor(tensor::Exec& exec, Args a, const Adafactor& rule, const OnGpu& of_gpu, const OnCpu& of_cpu) {
  a.scale = rule.gradient_scale;
  a.threads = exec.threads();
  if (exec.on_gpu()) {
    a.numbers = rule.numbers;
    return exec.run([a, of_gpu] { of_gpu(a); });
  }
  exec.run([a, of_cpu, numbers = rule.numbers]() mutable {
    if (numbers != nullptr && numbers->finite == 0) return;
    if (numbers != nullptr) a.scale = numbers->gradient_scale;
    of_cpu(a);
  });
}

void update_lines_on_cpu(const AdafactorFactorsArgs& a, int threads) {
  const KernelTimer timer("adafactor_factors", [] { return KernelWork{}; });
  const std::int64_t lines = a.rows + a.cols;
#pragma omp parallel for num_threads(threads) schedule(static) if (lines > 512)
  for (std::int64_t l = 0; l < lines; ++l) update_line(a, l);
  if (a.vector) return;
  double parts[mean_parts] = {}, mean = 0;
  for (std::int64_t i = 0; i < a.rows; i += mean_parts)
    for (std::int64_t p = 0; p < std::min<std::int64_t>(mean_parts, a.rows - i); ++p)
      parts[p] += static_cast<double>(a.row_var[i + p]);
  for (const double part : parts) mean += part;
  mean /= static_cast<double>(a.rows);
#pragma omp parallel for num_threads(threads) schedule(static) if (lines > 4096)
  for (std::int64_t i = 0; i < a.rows; ++i) a.row_factors[i] = row_factor(mean, a.row_var[i]);
}

}  // namespace

void add_line_squares(tensor::Exec& exec, const LineSquares& part) {
  constexpr const char* name = "add_line_squares";
  const std::int64_t rows = part.rows.count() / square_sum_limbs, count = part.gradient.count();
  require_floats(part.gradient, count, name, "gradient");
  require_lines(part.rows, rows, name, "rows");
  require_lines(part.columns, part.held.cols, name, "columns");
  require_held(part.held, count, rows, name);
  TRAINYARD_ASSERT(std::max(rows, part.held.cols) <= most_adafactor_squares, "{}: {} x {}", name, rows, part.held.cols);
  if (count == 0) return;
  AdafactorLinesArgs args;
  args.gradient = part.gradient.ptr<float>();
  args.n = count, args.first = part.held.first, args.cols = part.held.cols;
  args.rows = part.rows.ptr<std::int64_t>(), args.columns = part.columns.ptr<std::int64_t>();
  run_adafactor(
      exec, args, part.rule,
      [&exec](const auto& a) {
        tensor::require_gpu(gpu_kernels().adafactor_lines(a, exec.stream()), "add_line_squares on the GPU");
      },
      [](const auto& a) { TRAINYARD_CPU_CALL(adafactor_lines_cpu, (a)); });
}

void update_lines(tensor::Exec& exec, const LineUpdate& u) {
  constexpr const char* name = "update_lines";
  AdafactorFactorsArgs a;
  a.rows = u.row_var.count(), a.cols = u.column_var.count();
  require_lines(u.row_squares, a.rows, name, "row_squares");
  require_lines(u.column_squares, a.cols, name, "column_squares");
  require_floats(u.row_var, a.rows, name, "row_var");
  require_floats(u.column_var, a.cols, name, "column_var");
  require_floats(u.row_factors, a.rows, name, "row_factors");
  require_floats(u.column_factors, a.cols, name, "column_factors");
  TRAINYARD_ASSERT(!u.vector || a.cols == 1, "{}: a vector of {} columns", name, a.cols);
  TRAINYARD_ASSERT(u.rule.step >= 1, "{}: step {}", name, u.rule.step);
  if (a.rows == 0 || a.cols == 0) return;
  a.row_squares = u.row_squares.ptr<std::int64_t>(), a.column_squares = u.column_squares.ptr<std::int64_t>();
  a.row_var = u.row_var.ptr<float>(), a.column_var = u.column_var.ptr<float>();
  a.row_factors = u.row_factors.ptr<float>(), a.column_factors = u.column_factors.ptr<float>();
  a.weight = std::pow(u.rule.step, -u.rule.beta2_decay);
  a.epsilon1 = Adafactor::epsilon1;
  a.vector = u.vector;
  a.numbers = u.rule.numbers;
  exec.run([&exec, a] {
    if (exec.on_gpu())
      return tensor::require_gpu(gpu_kernels().adafactor_factors(a, exec.stream()), "update_lines on the GPU");
    if (a.numbers == nullptr || a.numbers->finite != 0) update_lines_on_cpu(a, exec.threads());
  });
}

void add_adafactor_squares(tensor::Exec& exec, const Adafactor& rule, const AdafactorPart& part,
                           base::ConstView parameter, base::View squares) {
  constexpr const char* name = "add_adafactor_squares";
  const std::int64_t count = parameter.count();
  require_floats(parameter, count, name, "parameter");
  require_part(part, count, name);
  require_lines(squares, 2, name, "squares");
  for (std::int64_t from = 0; from < count; from += most_adafactor_squares) {
    AdafactorSquaresArgs args;
    args.gradient = part.gradient.ptr<float>() + from, args.parameter = parameter.ptr<float>() + from;
    args.n = std::min(most_adafactor_squares, count - from);
    args.first = part.held.first + from, args.cols = part.held.cols;
    args.row_factors = part.row_factors.ptr<float>(), args.column_factors = part.column_factors.ptr<float>();
    args.squares = squares.ptr<std::int64_t>();
    if (from > 0) carry_squares(exec, squares);
    run_adafactor(
        exec, args, rule,
        [&exec](const auto& a) {
          tensor::require_gpu(gpu_kernels().adafactor_squares(a, exec.stream()), "add_adafactor_squares on the GPU");
        },
        [](const auto& a) { TRAINYARD_CPU_CALL(adafactor_squares_cpu, (a)); });
  }
}

void adafactor_update(tensor::Exec& exec, const AdafactorUpdate& u) {
  constexpr const char* name = "adafactor_update";
  const std::int64_t count = u.parameter.count();
  require_floats(u.parameter, count, name, "parameter");
  require_part(u.part, count, name);
  require_lines(u.squares, 2, name, "squares");
  require_types(u.working, narrow_types, name, "working");
  TRAINYARD_ASSERT(!u.working || (u.working.dense() && u.working.count() == count), "{}: working copy of {} elements",
                   name, u.working.count());
  TRAINYARD_ASSERT(u.rule.step >= 1 && u.count >= count, "{}: step {}, {} of {} elements", name, u.rule.step, count,
                   u.count);
  if (count == 0) return;
  const double rate = static_cast<double>(u.rule.learning_rate);
  AdafactorUpdateArgs args;
  args.gradient = u.part.gradient.ptr<float>(), args.parameter = u.parameter.ptr<float>();
  args.working = mat(u.working);
  args.n = count, args.first = u.part.held.first, args.cols = u.part.held.cols;
  args.row_factors = u.part.row_factors.ptr<float>(), args.column_factors = u.part.column_factors.ptr<float>();
  if (u.decays) args.keep = static_cast<float>(1 - rate * static_cast<double>(u.rule.weight_decay));
  args.size = {.rho = std::min(rate, 1 / std::sqrt(u.rule.step)),
               .count = static_cast<double>(u.count),
               .epsilon2 = Adafactor::epsilon2,
               .clip = Adafactor::clip,
               .scale_parameter = u.rule.scale_parameter};
  args.squares = u.squares.ptr<std::int64_t>();
  run_adafactor(
      exec, args, u.rule,
      [&exec](const auto& a) {
        tensor::require_gpu(gpu_kernels().adafactor_update(a, exec.stream()), "adafactor_update on the GPU");
      },
      [](auto a) {
        a.step_size = adafactor_step_size(a.size, a.squares);
        TRAINYARD_CPU_CALL(adafactor_update_cpu, (a));
      });
}

}  // namespace trainyard::kernels
