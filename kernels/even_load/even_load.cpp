// Updates a gate's choice biases.
#include "kernels/even_load/even_load.h"

#include "kernels/gpu_kernels.h"
#include "kernels/update/remainder_bits.h"
#include "kernels/update/remainder_check.h"

#include <bit>

namespace trainyard::kernels {

namespace {

void even_biases(const EvenLoadArgs& a) {
  auto* bias = static_cast<float*>(a.bias);
  for (std::int64_t i = 0; i < a.n; ++i) bias[i] = evened(bias[i], a.loads[i], a.mean, a.rate);
}

void even_split_biases(const EvenLoadArgs& a) {
  auto* working = static_cast<base::bf16*>(a.bias);
  for (std::int64_t i = 0; i < a.n; ++i) {
    auto& low = a.remainder.low[i];
    auto& marks = a.remainder.marks[(a.remainder.shift + i) / 8];
    const auto bit = 1u << (a.remainder.shift + i) % 8;
    const auto bias = std::bit_cast<float>(master_bits(working[i].bits, low, (marks & bit) != 0));
    const auto changed = evened(bias, a.loads[i], a.mean, a.rate);
    const auto bits = std::bit_cast<std::uint32_t>(changed);
    working[i] = base::bf16(changed), low = static_cast<std::uint16_t>(bits);
    marks = static_cast<std::uint8_t>(needs_mark(bits, working[i].bits) ? marks | bit : marks & ~bit);
  }
}

}  // namespace

void even_load_update(tensor::Exec& exec, const EvenedBiases& biases, base::ConstView loads, double mean, float rate,
                      const StepNumbers* numbers) {
  const auto& bias = biases.bias;
  if (biases.remainder) require_remainder(biases.remainder, bias, loads.count(), "even_load_update");
  else require_type(bias, base::DType::f32, "even_load_update", "bias");
  require_type(loads, base::DType::f32, "even_load_update", "loads");
  TRAINYARD_ASSERT(bias.count() == loads.count() && bias.dense() && loads.dense(), "{} biases for {} loads",
                   bias.count(), loads.count());
  const EvenLoadArgs args{.bias = bias.data,
                          .loads = loads.ptr<float>(),
                          .n = bias.count(),
                          .mean = mean,
                          .rate = rate,
                          .numbers = numbers,
                          .remainder = remainder_part(biases.remainder)};
  exec.run([&exec, args] {
    if (exec.on_gpu()) return tensor::require_gpu(gpu_kernels().even_load(args, exec.stream()), "even_load on the GPU");
    if (args.numbers != nullptr && args.numbers->finite == 0) return;
    if (args.remainder.empty()) even_biases(args);
    else even_split_biases(args);
  });
}

}  // namespace trainyard::kernels
