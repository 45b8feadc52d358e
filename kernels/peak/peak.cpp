// Checks, and dispatches to the instruction-set path in use.
#include "kernels/peak/peak.h"

#include "kernels/call.h"
#include "kernels/peak/peak_args.h"
#include "libtrain/base/error.h"

namespace trainyard::kernels {

std::int64_t multiply_adds(tensor::Exec& exec, std::int64_t rounds) {
  TRAINYARD_ASSERT(!exec.on_gpu() && rounds >= 1, "{} rounds", rounds);
  const PeakArgs args{.rounds = rounds, .threads = exec.threads()};
  return TRAINYARD_CPU_CALL(multiply_adds_cpu, (args));
}

std::int64_t bf16_multiply_adds(tensor::Exec& exec, std::int64_t rounds) {
  TRAINYARD_ASSERT(!exec.on_gpu() && rounds >= 1, "{} rounds", rounds);
  const PeakArgs args{.rounds = rounds, .threads = exec.threads()};
  return TRAINYARD_CPU_CALL(bf16_multiply_adds_cpu, (args));
}

void stream_copy(tensor::Exec& exec, base::ConstView from, base::View to) {
  TRAINYARD_ASSERT(!exec.on_gpu() && from.dense() && to.dense() && from.bytes() == to.bytes(), "copy of {} to {} bytes",
                   from.bytes(), to.bytes());
  const StreamArgs args{.from = static_cast<const char*>(from.data),
                        .to = static_cast<char*>(to.data),
                        .bytes = to.bytes(),
                        .threads = exec.threads()};
  exec.run([args] { TRAINYARD_CPU_CALL(stream_cpu, (args)); });
}

void stream_fill(tensor::Exec& exec, base::View to, unsigned char byte) {
  TRAINYARD_ASSERT(!exec.on_gpu() && to.dense(), "fill of {} bytes", to.bytes());
  const StreamArgs args{
      .to = static_cast<char*>(to.data), .byte = byte, .bytes = to.bytes(), .threads = exec.threads()};
  exec.run([args] { TRAINYARD_CPU_CALL(stream_cpu, (args)); });
}

}  // namespace trainyard::kernels
