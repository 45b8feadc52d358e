// Resharding, averaging and comparing need only their buffers, whatever the size of the model. The peak of the heap
// shows it.
#include "tests/checkpoint/sample.h"
#include "tests/heap.h"

#include "libtrain/checkpoint/average.h"
#include "libtrain/checkpoint/compare.h"

#include <gtest/gtest.h>

using namespace sample;
using trainyard::base::DType;

namespace {

constexpr std::int64_t rest = 6 << 20;  // the manifest, and what the HDF5 library keeps

}  // namespace

TEST(ReshardMemory, NeedsWhatItIsGivenForBuffers) {
  Scratch scratch;
  const auto from = scratch.path + "/step-00000005", to = scratch.path + "/to";
  save(scratch.path, state(large(), DType::f32, 5), 3);
  struct Case {
    int threads, ranks;
    std::int64_t memory;
    std::optional<DType> dtype;
    int tensor = 1;
  };
  for (const auto& c : {Case{1, 1, 4 << 20, {}}, Case{3, 5, 4 << 20, {}}, Case{3, 2, 12 << 20, DType::bf16},
                        Case{3, 2, 48 << 20, {}}, Case{3, 2, 12 << 20, {}, 4}}) {
    fs::remove_all(to);
    checkpoint::ReshardOptions o;
    o.threads = c.threads, o.memory = c.memory;
    heap::restart_peak();
    const auto before = heap::live.load();
    const checkpoint::Reader source(from, checkpoint::Reader::Check::all_but_payloads);
    checkpoint::reshard(source, to, {c.ranks, c.dtype, {}, {}, {}, c.tensor}, o);
    EXPECT_LT(heap::peak - before, c.memory + rest) << c.threads << " threads, " << c.memory << " bytes";
  }
}

TEST(ReshardMemory, WeightsThatBecomeWide) {
  Scratch scratch;
  save(scratch.path, state(large(), DType::bf16, 5), 3);
  const auto from = scratch.path + "/step-00000005", narrow = scratch.path + "/narrow", wide = scratch.path + "/wide";
  checkpoint::ReshardOptions o;
  checkpoint::reshard(checkpoint::Reader(from), narrow, {1, {}, {}, {}, checkpoint::Contents::model}, o);
  o.threads = 3, o.memory = 36 << 20;
  heap::restart_peak();
  const auto before = heap::live.load();
  checkpoint::reshard(checkpoint::Reader(narrow), wide, {2, DType::f32, {}, {}}, o);
  EXPECT_LT(heap::peak - before, o.memory + rest);
}

TEST(ReshardMemory, AMeanAndAComparisonToo) {
  Scratch scratch;
  save(scratch.path, state(large(), DType::f32, 5), 3);
  const auto from = scratch.path + "/step-00000005";
  const checkpoint::Reader source(from, checkpoint::Reader::Check::all_but_payloads);
  checkpoint::ReshardOptions o;
  o.memory = 24 << 20;
  heap::restart_peak();
  const auto before = heap::live.load();
  checkpoint::average({&source, &source}, scratch.path + "/mean", {}, o);
  EXPECT_LT(heap::peak - before, o.memory + rest);
  heap::restart_peak();
  checkpoint::compare(source, checkpoint::Reader(scratch.path + "/mean"), checkpoint::Contents::all, 1);
  EXPECT_LT(heap::peak - before, (12 << 20) + rest);
}
