// Saving and loading need the rank's own slices and a staging buffer, whatever the size of the model. The peak of the
// heap shows it.
#include "tests/checkpoint/sample.h"
#include "tests/heap.h"

#include <gtest/gtest.h>

using namespace sample;
using trainyard::base::DType;

namespace {

constexpr std::int64_t staging = 6 << 20;  // blocks of a MiB, the manifest, and what the HDF5 library keeps

}  // namespace

TEST(Memory, SavingNeedsAStagingBuffer) {
  Scratch scratch;
  for (auto dtype : {DType::f32, DType::bf16}) {
    const auto s = state(large(), dtype, 5);
    const Rank rank(s, 0, 2), other(s, 1, 2);
    heap::restart_peak();
    const auto before = heap::live.load();
    checkpoint::write_rank(scratch.path, s, rank.shards, {});
    EXPECT_LT(heap::peak - before, staging);
    checkpoint::write_rank(scratch.path, s, other.shards, {});
    checkpoint::publish(scratch.path, s, plan::Topology({{plan::Axis::data, 2}}), 3);
    EXPECT_LT(heap::peak - before, staging) << "publishing";
  }
}

TEST(Memory, LoadingNeedsTheSlicesAndAStagingBuffer) {
  Scratch scratch;
  const auto s = state(large(), DType::f32, 5);
  save(scratch.path, s, 3);
  const auto flat_groups = plan::flat_groups(s.model);
  std::vector<std::vector<float>> slices;  // of rank 1 of 2
  for (const auto& flat_group : flat_groups)
    slices.emplace_back(static_cast<std::size_t>(plan::layout(flat_group, 2).shard));
  heap::restart_peak();
  const auto before = heap::live.load();
  checkpoint::Reader reader(scratch.path + "/step-00000005", checkpoint::Reader::Check::as_needed);
  for (auto kind : {checkpoint::Kind::master, checkpoint::Kind::state("m"), checkpoint::Kind::state("v")})
    for (std::size_t u = 0; u < flat_groups.size(); ++u)
      reader.read_shard(kind, flat_groups[u], plan::replicas_of(2, 1), 1, slices[u].data());
  EXPECT_LT(heap::peak - before, staging);
}

// A rank that reads a few slices does not open other ranks' files.
TEST(Memory, AReaderOpensARankFileWhenItNeedsIt) {
  Scratch scratch;
  const auto s = state(gpt(), DType::f32, 5);
  save(scratch.path, s, 4);
  const auto folder = scratch.path + "/step-00000005";
  fs::remove(folder + "/rank-00003.h5");
  EXPECT_THROW(checkpoint::Reader{folder}, base::InputError);
  checkpoint::Reader reader(folder, checkpoint::Reader::Check::as_needed);
  float first = 0;
  reader.read_tensor(checkpoint::Kind::state("m"), "embedding.tokens.weight", 0, 1,
                     &first);  // rank 0 holds the first element of every flat group
  EXPECT_EQ(first, value(checkpoint::Kind::state("m"), "embedding.tokens.weight", 0, DType::f32));
  std::vector<float> whole(24 * 40);
  EXPECT_THROW(reader.read_tensor(checkpoint::Kind::state("m"), "layers.00.ffn.down.weight", 0, 24 * 40, whole.data()),
               base::InputError);
}
