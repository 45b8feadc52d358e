// Checks views, splits long parts so that no digit overflows, and dispatches.
#include "kernels/update/trust_ratio.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/update/trust_ratio_args.h"
#include "kernels/update/update.h"

#include <algorithm>

namespace trainyard::kernels {

namespace {

// Squares between two carries: each adds less than 2^32 to a digit.
constexpr std::int64_t most_squares = std::int64_t{1} << 30;

void require_rows_of_squares(const base::ConstView& squares, const char* operation) {
  require_type(squares, base::DType::i64, operation, "squares");
  TRAINYARD_ASSERT(squares.dense() && squares.count() % squares_of_update == 0, "{}: {} digits", operation,
                   squares.count());
}

}  // namespace

void add_update_squares(tensor::Exec& exec, const UpdateSquares& u) {
  const auto require = [&](const char* name, const base::ConstView& view, base::DType type) {
    require_type(view, type, "update_squares", name);
    TRAINYARD_ASSERT(view.count() == u.parameter.count() && view.dense(), "update_squares: {} of {} elements for {}",
                     name, view.count(), u.parameter.count());
  };
  require("parameter", u.parameter, base::DType::f32);
  require("m", u.m, dtype_of_states(u.m));
  require("v", u.v, dtype_of_states(u.m));
  require_rows_of_squares(u.squares, "update_squares");
  TRAINYARD_ASSERT(u.squares.count() == squares_of_update, "update_squares: {} digits", u.squares.count());
  auto* squares = u.squares.ptr<std::int64_t>();
  for (std::int64_t from = 0; from < u.parameter.count(); from += most_squares) {
    const auto n = std::min(most_squares, u.parameter.count() - from);
    const UpdateSquaresArgs a{.parameter = mat(u.parameter.elements(from, n)),
                              .m = mat(u.m.elements(from, n)),
                              .v = mat(u.v.elements(from, n)),
                              .n = n,
                              .sequence = u.rule.sequence(),
                              .weight_decay = u.decays ? u.rule.weight_decay : 0,
                              .squares = squares,
                              .threads = exec.threads()};
    if (from > 0) carry_squares(exec, u.squares);
    exec.run([&exec, a] { TRAINYARD_CALL(exec, update_squares, a); });
  }
}

void carry_squares(tensor::Exec& exec, base::View squares) {
  require_type(squares, base::DType::i64, "carry_squares", "squares");
  const CarrySquaresArgs a{squares.ptr<std::int64_t>(), squares.count() / square_sum_limbs};
  TRAINYARD_ASSERT(squares.dense() && squares.count() == a.sums * square_sum_limbs, "carry_squares: {} digits",
                   squares.count());
  if (a.sums == 0) return;
  exec.run([&exec, a] {
    if (exec.on_gpu())
      return tensor::require_gpu(gpu_kernels().update_carry(a, exec.stream()), "carry_squares on the GPU");
    for (std::int64_t s = 0; s < a.sums; ++s) carry_digits(a.squares + s * square_sum_limbs);
  });
}

void trust_ratios(tensor::Exec& exec, base::ConstView squares, base::View ratios) {
  require_rows_of_squares(squares, "trust_ratios");
  require_type(ratios, base::DType::f32, "trust_ratios", "ratios");
  const TrustRatiosArgs a{squares.ptr<std::int64_t>(), squares.count() / squares_of_update, ratios.ptr<float>()};
  TRAINYARD_ASSERT(ratios.dense() && ratios.count() == a.rows, "trust_ratios: {} ratios of {} parameters",
                   ratios.count(), a.rows);
  exec.run([&exec, a] {
    if (exec.on_gpu())
      return tensor::require_gpu(gpu_kernels().update_ratios(a, exec.stream()), "trust_ratios on the GPU");
    for (std::int64_t r = 0; r < a.rows; ++r) a.ratios[r] = trust_ratio(a.squares + r * squares_of_update);
  });
}

}  // namespace trainyard::kernels
