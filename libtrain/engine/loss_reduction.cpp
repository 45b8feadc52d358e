// Ranks take micro-batches in rotation; then one gather, and one sum in the order of micro-batches.
#include "libtrain/engine/loss_reduction.h"

#include "libtrain/base/index.h"
#include "libtrain/base/reduction_order.h"

#include <algorithm>
#include <vector>

namespace trainyard::engine {

void reduce_losses(World& world, tensor::Exec& communication, std::int64_t first, std::int64_t end,
                   const EvaluateMicros& evaluate, MicroLoss& total) {
  reduce_losses(world, communication, first, end, evaluate, [&](std::int64_t) -> MicroLoss& { return total; });
}

void reduce_losses(World& world, tensor::Exec& communication, std::int64_t first, std::int64_t end,
                   const EvaluateMicros& evaluate, const TotalOf& total_of) {
  constexpr std::int64_t width = sizeof(MicroLoss) / sizeof(double);
  const auto rows = world.topology.rows_with_losses(world.size);
  const std::int64_t ranks = rows.ranks, mine = world.reduction_position(), each = (end - first + ranks - 1) / ranks;
  std::vector<MicroLoss> own(base::size(each)), all(base::size(each * world.size));
  std::vector<std::int64_t> micros;
  for (std::int64_t k = 0; k < each; ++k) micros.push_back(std::min(first + k * ranks + mine, end - 1));
  evaluate(micros, own);
  if (each > 0 && first + (each - 1) * ranks + mine >= end) own.back() = {};
  world.control->all_gather(communication, base::View::of(reinterpret_cast<double*>(own.data()), {width * each}),
                            base::View::of(reinterpret_cast<double*>(all.data()), {width * each * world.size}));
  communication.synchronize();
  for (std::int64_t i = 0; i < end - first; ++i) {
    const auto at = base::place_of_micro_batch(i, 1, ranks);
    const auto& micro = base::at(all, rows.row(at.rank) * each + at.place);
    auto& total = total_of(first + i);
    total.sum += micro.sum;
    total.targets += micro.targets;
    total.bytes += micro.bytes;
    total.unmeasured += micro.unmeasured;
  }
}

}  // namespace trainyard::engine
