// Checks targets and dispatches.
#include "kernels/cross_entropy/cross_entropy.h"

#include "kernels/check.h"
#include "kernels/cross_entropy/cross_entropy_args.h"
#include "kernels/gpu_kernels.h"
#include "kernels/lane_order.h"

#include <algorithm>

namespace trainyard::kernels {

namespace {

const char* entry_of(CrossEntropyStep step) {
  return step == CrossEntropyStep::statistics ? "cross_entropy_statistics"
         : step == CrossEntropyStep::finish   ? "cross_entropy_finish"
                                              : "cross_entropy_chunk";
}

// Op is the operation's struct.
template <class Op>
CrossEntropyArgs arguments(tensor::Exec& exec, CrossEntropyStep step, const Op& op, std::int64_t first_column) {
  const auto &logits = op.logits, &targets = op.targets, &weights = op.weights;
  require_types(logits, accumulation_types, entry_of(step), "logits");
  require_type(targets, base::DType::i32, entry_of(step), "targets");
  require_type(weights, base::DType::u8, entry_of(step), "weights");
  TRAINYARD_ASSERT(targets.count() == logits.rows() && weights.count() == logits.rows() && first_column >= 0,
                   "{} targets, {} weights for {} x {} logits from column {}", targets.count(), weights.count(),
                   logits.rows(), logits.cols(), first_column);
  CrossEntropyArgs a;
  a.step = step;
  a.logits = mat(logits);
  a.first_column = first_column;
  a.columns = std::clamp<std::int64_t>(op.vocabulary - first_column, 0, logits.cols());
  a.targets = targets.template ptr<std::int32_t>(), a.weights = weights.template ptr<std::uint8_t>();
  a.threads = exec.threads();
  a.softcap = op.softcap;
  TRAINYARD_ASSERT(op.label_smoothing >= 0 && op.label_smoothing < 1, "label smoothing of {}", op.label_smoothing);
  if (op.label_smoothing > 0) a.smooth = true, a.numbers = 4;
  a.target_share = 1 - op.label_smoothing;
  a.column_share = op.label_smoothing / static_cast<double>(op.vocabulary);
  return a;
}

void set_lanes(CrossEntropyArgs& a, std::int64_t lanes) {
  TRAINYARD_ASSERT(lanes >= 1 && lanes <= most_lanes && a.logits.cols % lanes == 0, "{} lanes of {} columns", lanes,
                   a.logits.cols);
  a.lanes = lanes;
}

// The statistics as a matrix with a row for each number of a piece.
template <class Memory>
MatOf<Memory> statistics_mat(const CrossEntropyArgs& a, const base::ViewOf<Memory>& statistics) {
  require_type(statistics, dtype_of(a.logits.type), entry_of(a.step), "statistics");
  TRAINYARD_ASSERT(
      statistics.dense() && statistics.count() > 0 && statistics.count() % (a.numbers * a.logits.rows) == 0,
      "{} statistics for {} tokens, {} for each", statistics.count(), a.logits.rows, a.numbers);
  return {.data = statistics.data,
          .rows = statistics.count() / a.logits.rows,
          .cols = a.logits.rows,
          .pitch = a.logits.rows,
          .type = a.logits.type};
}

template <class Op> void set_results(CrossEntropyArgs& a, const Op& op) {
  const auto &losses = op.losses, &dlogits = op.dlogits;
  require_type(losses, base::DType::f64, entry_of(a.step), "losses");
  require_type_of_sums(dlogits, dtype_of(a.logits.type), entry_of(a.step), "dlogits");
  TRAINYARD_ASSERT(losses.count() == a.logits.rows, "{} losses of {} tokens", losses.count(), a.logits.rows);
  if (dlogits) require_shape(dlogits, a.logits.rows, a.logits.cols, "dlogits");
  a.losses = losses.template ptr<double>();
  a.dlogits = mat(dlogits);
  a.loss_scale = op.loss_scale;
}

// The first step reads the targets before any other, so it is the one that checks them.
void check_targets(const CrossEntropyArgs& a, std::int64_t vocabulary) {
  for (std::int64_t r = 0; r < a.logits.rows; ++r)
    if (a.weights[r] != 0 && (a.targets[r] < 0 || a.targets[r] >= vocabulary))
      throw base::InputError(fmt::format("target {} lies outside the vocabulary of {}", a.targets[r], vocabulary),
                             "do the shards belong to this model?");
}

void run(tensor::Exec& exec, const CrossEntropyArgs& a, std::int64_t vocabulary) {
  exec.run([&exec, a, vocabulary] {
    if (!exec.on_gpu() && a.step != CrossEntropyStep::finish) check_targets(a, vocabulary);
    TRAINYARD_CALL(exec, cross_entropy, a);
  });
}

}  // namespace

void cross_entropy_statistics(tensor::Exec& exec, const CrossEntropyStatistics& tokens) {
  auto a = arguments(exec, CrossEntropyStep::statistics, tokens, tokens.first_column);
  if (a.logits.rows == 0) return;
  set_lanes(a, tokens.lanes);
  a.statistics = statistics_mat(a, tokens.statistics);
  TRAINYARD_ASSERT(a.statistics.rows == a.numbers || a.statistics.rows == a.numbers * tokens.lanes,
                   "{} rows of statistics for {} lanes", a.statistics.rows, tokens.lanes);
  run(exec, a, tokens.vocabulary);
}

void cross_entropy_finish(tensor::Exec& exec, const CrossEntropyFinish& tokens) {
  auto a = arguments(exec, CrossEntropyStep::finish, tokens, tokens.first_column);
  if (a.logits.rows == 0) return;
  a.all_statistics = statistics_mat(a, tokens.statistics);
  TRAINYARD_ASSERT(a.all_statistics.rows <= a.numbers * most_lanes, "{} rows of statistics", a.all_statistics.rows);
  set_results(a, tokens);
  run(exec, a, tokens.vocabulary);
}

void cross_entropy_chunk(tensor::Exec& exec, const CrossEntropyChunk& tokens) {
  TRAINYARD_ASSERT(tokens.vocabulary <= tokens.logits.cols(), "{} logits for a vocabulary of {}", tokens.logits.cols(),
                   tokens.vocabulary);
  auto a = arguments(exec, CrossEntropyStep::both, tokens, 0);
  if (a.logits.rows == 0) return;
  set_lanes(a, tokens.lanes);
  set_results(a, tokens);
  run(exec, a, tokens.vocabulary);
}

void cap_logits(tensor::Exec& exec, base::View logits, double softcap) {
  require_types(logits, accumulation_types, "cap_logits", "logits");
  if (logits.count() == 0) return;
  CrossEntropyArgs a;
  a.step = CrossEntropyStep::cap;
  a.logits = mat(base::ConstView(logits)), a.dlogits = mat(logits);
  a.threads = exec.threads(), a.softcap = softcap;
  exec.run([&exec, a] { TRAINYARD_CALL(exec, cross_entropy, a); });
}

double sum_losses(tensor::Exec& exec, base::ConstView losses) {
  double sum = 0;
  const auto host = base::View::of(&sum, {1});
  if (exec.on_gpu()) {
    tensor::ArenaScope scope(exec.scratch());
    const auto slot = exec.scratch().allocate(base::DType::f64, {1});
    sum_losses_into(exec, losses, slot);
    tensor::copy(exec, slot, host);
  } else {
    sum_losses_into(exec, losses, host);
  }
  exec.synchronize();
  return sum;
}

void sum_losses_into(tensor::Exec& exec, base::ConstView losses, base::View out) {
  require_type(losses, base::DType::f64, "sum_losses", "losses");
  require_type(out, base::DType::f64, "sum_losses", "out");
  TRAINYARD_ASSERT(losses.dense(), "the sum of {} losses with gaps", losses.count());
  if (!exec.on_gpu())
    return exec.run([losses, out] {
      double sum = 0;
      for (std::int64_t i = 0; i < losses.count(); ++i) sum += losses.ptr<double>()[i];
      *out.ptr<double>() = sum;
    });
  tensor::require_gpu(
      gpu_kernels().sum_losses({.losses = losses.ptr<double>(), .n = losses.count(), .out = out.ptr<double>()},
                               exec.stream()),
      "sum_losses on the GPU");
}

}  // namespace trainyard::kernels
