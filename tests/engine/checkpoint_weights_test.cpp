// CheckpointWeights: shards of several pieces are those that loading reads, rounded; their sums and bytes.
#include "tests/checkpoint/sample.h"

#include "libtrain/engine/checkpoint_weights.h"
#include "libtrain/plan/blocks/inventory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace trainyard {
namespace checkpoint_weights_test {

// The shard in the working dtype, as its bytes.
std::vector<char> rounded_bytes(const std::vector<float>& values, base::DType working) {
  if (working == base::DType::f32) {
    std::vector<char> out(4 * values.size());
    std::memcpy(out.data(), values.data(), out.size());
    return out;
  }
  std::vector<char> out(2 * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = base::bf16(values[i]).bits;
    std::memcpy(out.data() + 2 * i, &bits, 2);
  }
  return out;
}

// Two tensor-parallel ranks wrote the files. One rank reads layers of two pieces; of four ranks each reads a quarter.
TEST(CheckpointWeights, ReadWhatLoadingReads) {
  for (const auto stored : {base::DType::f32, base::DType::bf16}) {
    const sample::Scratch scratch;
    const auto model = sample::large();
    sample::save(scratch.path, sample::state(model, stored, 5), plan::replicas_of(2, 2));
    checkpoint::Reader reader(scratch.path + "/step-00000005");
    for (const auto& topology : {plan::replicas_of(1, 1), plan::replicas_of(4, 2)})
      for (const auto working : {base::DType::f32, base::DType::bf16}) {
        checkpoint::ReadSums all(reader);
        std::int64_t bytes = 0, largest = 0;
        for (int rank = 0; rank < topology.world(); ++rank) {
          const plan::FlatGroupSet set(model, topology);
          engine::CheckpointWeights source(set, topology, rank);
          source.open(reader);
          for (int u = 0; u < static_cast<int>(set.flat_groups.size()); ++u) {
            const auto shard = base::at(set.layouts, u).shard;
            std::vector<float> loaded(base::size(shard));
            reader.read_shard(checkpoint::Kind::model, base::at(set.flat_groups, u), topology, rank, loaded.data());
            const auto want = rounded_bytes(loaded, working);
            for (int time = 0; time < (u == 2 ? 2 : 1); ++time) {
              std::vector<char> got(want.size(), '\x7f');
              source.read(u, base::View(got.data(), working, {shard}));
              EXPECT_TRUE(got == want) << base::name_of(stored) << " to " << base::name_of(working) << ", rank " << rank
                                       << " of " << topology.world() << ", flat group " << u;
            }
            largest = std::max(largest, shard);
          }
          all.add(source.sums());
          bytes += source.bytes();
          EXPECT_GT(source.block_bytes(), 0);
        }
        EXPECT_NO_THROW(all.require());
        EXPECT_GT(bytes, plan::parameter_count(model) * base::size_of(stored));
        if (topology.world() == 1) {
          EXPECT_GT(largest, engine::CheckpointWeights::piece) << "no shard of several pieces";
        }
      }
  }
}

}  // namespace checkpoint_weights_test
}  // namespace trainyard
