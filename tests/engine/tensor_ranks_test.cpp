// Tensor-parallel ranks of a replica: what all of them compute alike counts once; losses and norm are those of one
// rank.
#include "kernels/square_sum/square_sum.h"
#include "libtrain/comm/threads.h"
#include "libtrain/engine/loss_reduction.h"
#include "libtrain/engine/step_results.h"
#include "libtrain/engine/world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

namespace trainyard::engine {
namespace tensor_ranks_test {

struct Ranks {
  int data, tensor;
};
constexpr Ranks layouts[] = {{1, 1}, {1, 2}, {2, 2}, {3, 1}, {3, 4}};

void on(const Ranks& ranks, const std::function<void(World& world)>& body) {
  comm::run_ranks(ranks.data * ranks.tensor, [&](int rank, comm::ThreadsWorld& threads) {
    auto world = make_world("threads", rank, plan::replicas_of(threads.size(), ranks.tensor), threads.factory(rank));
    body(world);
  });
}

TEST(TensorRanks, AreNeighboursOfTheWorld) {
  on({2, 3}, [](World& world) {
    EXPECT_EQ(world.coordinate(plan::Axis::data), world.rank / 3);
    EXPECT_EQ(world.coordinate(plan::Axis::tensor), world.rank % 3);
    EXPECT_EQ(world.group({plan::Axis::data}).size(), 2);
    EXPECT_EQ(world.group({plan::Axis::data}).rank(), world.rank / 3);
    EXPECT_EQ(world.group({plan::Axis::tensor}).size(), 3);
    EXPECT_EQ(world.group({plan::Axis::tensor}).rank(), world.rank % 3);
  });
}

// The loss of a micro-batch, chosen so that another order of additions gives other bits.
MicroLoss loss_of(std::int64_t m) { return {1 / (3.0 + static_cast<double>(m)), 7.0 + static_cast<double>(m), 3, 1}; }

TEST(TensorRanks, EvaluateTheSameMicroBatches) {
  constexpr std::int64_t first = 2, end = 13;
  MicroLoss expected;
  for (auto m = first; m < end; ++m) {
    expected.sum += loss_of(m).sum;
    expected.targets += loss_of(m).targets;
  }
  for (const auto& ranks : layouts) {
    std::mutex mutex;
    std::vector<std::vector<std::int64_t>> seen(static_cast<std::size_t>(ranks.data * ranks.tensor));
    on(ranks, [&](World& world) {
      auto caller = tensor::Exec::caller(nullptr, 1);
      MicroLoss total;
      reduce_losses(
          world, world.communication ? *world.communication : *caller, first, end,
          [&](std::span<const std::int64_t> micros, std::span<MicroLoss> losses) {
            std::lock_guard lock(mutex);
            seen[static_cast<std::size_t>(world.rank)].assign(micros.begin(), micros.end());
            std::transform(micros.begin(), micros.end(), losses.begin(), loss_of);
          },
          total);
      EXPECT_EQ(total.sum, expected.sum);
      EXPECT_EQ(total.targets, expected.targets);
      EXPECT_EQ(total.bytes, 3.0 * (end - first));
    });
    for (std::size_t rank = 0; rank < seen.size(); ++rank) {
      const auto leader = rank / static_cast<std::size_t>(ranks.tensor) * static_cast<std::size_t>(ranks.tensor);
      EXPECT_EQ(seen[rank], seen[leader]) << rank;
      EXPECT_EQ(seen[rank].size(), static_cast<std::size_t>((end - first + ranks.data - 1) / ranks.data));
      EXPECT_EQ(seen[rank].front(), first + static_cast<std::int64_t>(rank) / ranks.tensor);
    }
  }
}

// The Execs of a rank, whose own thread computes.
struct Ground {
  explicit Ground(World& world)
      : compute(tensor::Exec::caller(nullptr, 1)), execs{world, *compute,
                                                         world.communication ? *world.communication : *compute} {}
  std::unique_ptr<tensor::Exec> compute;
  params::RankExecs execs;
};

TEST(TensorRanks, LossesCountOnceAndGradientsOfAll) {
  for (const auto& ranks : layouts)
    for (const std::int64_t local_accumulation : {1, 2}) {
      const plan::BatchPlan batch{14, 1, local_accumulation, ranks.data};
      double sum = 0, targets = 0, squares = 0;
      for (std::int64_t m = 0; m < batch.micros(); ++m) sum += loss_of(m).sum, targets += loss_of(m).targets;
      for (int r = 0; r < ranks.data * ranks.tensor; ++r) squares += (r + 1) * (r + 1);
      on(ranks, [&](World& world) {
        Ground ground(world);
        StepResults results(ground.execs, batch, *world.control, 0);
        results.begin();
        for (std::int64_t m = 0; m < batch.micros(); ++m) {
          const auto at = batch.place_of(m);
          if (at.rank != world.coordinate(plan::Axis::data)) continue;
          *static_cast<double*>(results.loss_of(at.place).data) = loss_of(m).sum;
          *static_cast<double*>(results.targets_of(at.place).data) = loss_of(m).targets;
        }
        float mine = static_cast<float>(world.rank + 1);
        const base::ConstView gradient = base::View::of(&mine, {1});
        results.agree({&gradient, 1});
        results.send();
        const auto numbers = results.take().numbers;
        EXPECT_EQ(numbers.loss, sum / targets) << ranks.data << " x " << ranks.tensor;
        EXPECT_EQ(numbers.targets, static_cast<std::int64_t>(targets));
        EXPECT_EQ(numbers.gradient_norm, std::sqrt(squares) / targets);
      });
    }
}

}  // namespace tensor_ranks_test
}  // namespace trainyard::engine
