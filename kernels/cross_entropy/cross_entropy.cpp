// Checks targets and dispatches.
#include "kernels/cross_entropy/cross_entropy.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/cross_entropy/cross_entropy_args.h"

namespace trainyard::kernels {

void cross_entropy_chunk(tensor::Exec& exec, base::View logits, base::View dlogits, std::int64_t vocabulary,
                         base::View targets, base::View weights, base::View losses) {
  TRAINYARD_ASSERT(targets.count() == logits.rows() && weights.count() == logits.rows() &&
                       losses.count() == logits.rows() && vocabulary <= logits.cols(),
                   "{} targets, {} weights, {} losses for {} x {} logits", targets.count(), weights.count(),
                   losses.count(), logits.rows(), logits.cols());
  if (dlogits) require_shape(dlogits, logits.rows(), logits.cols(), "dlogits");
  CrossEntropyArgs a{
      mat(logits),          mat(dlogits),  vocabulary, targets.ptr<std::int32_t>(), weights.ptr<std::uint8_t>(),
      losses.ptr<double>(), exec.threads()};
  exec.run([&exec, a] {
    for (std::int64_t r = 0; r < a.logits.rows && !exec.on_gpu(); ++r)
      if (a.weights[r] != 0 && (a.targets[r] < 0 || a.targets[r] >= a.vocabulary))
        throw base::InputError(fmt::format("target {} lies outside the vocabulary of {}", a.targets[r], a.vocabulary),
                               "do the shards belong to this model?");
    TRAINYARD_CALL(exec, cross_entropy, a);
  });
}

double sum_losses(tensor::Exec& exec, base::View losses) {
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

void sum_losses_into(tensor::Exec& exec, base::View losses, base::View out) {
  TRAINYARD_ASSERT(losses.dense() && out.dtype == base::DType::f64, "the sum of {} losses as {}", losses.count(),
                   base::name_of(out.dtype));
  if (!exec.on_gpu())
    return exec.run([losses, out] {
      double sum = 0;
      for (std::int64_t i = 0; i < losses.count(); ++i) sum += losses.ptr<double>()[i];
      *out.ptr<double>() = sum;
    });
  tensor::require_gpu(
      gpu_kernels().sum_losses({losses.ptr<double>(), losses.count(), out.ptr<double>()}, exec.stream()),
      "sum_losses on the GPU");
}

}  // namespace trainyard::kernels
