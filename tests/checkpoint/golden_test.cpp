// Golden checkpoints of trainyard.checkpoint/1, read for ever. They were written by the disabled test below and are never written again.
#include "tests/checkpoint/sample.h"

#include <gtest/gtest.h>

using namespace sample;
using trainyard::base::DType;

namespace {

plan::ModelConfig tiny(plan::ModelConfig m) {
  m.layers = 1, m.hidden = 8, m.heads = 2, m.kv_heads = std::min<std::int64_t>(m.kv_heads, 2), m.ffn = 16, m.vocabulary = 129, m.context = 8;
  return m;
}

struct Golden {
  const char* folder;
  plan::ModelConfig model;
  DType dtype;
  int ranks;
};
std::vector<Golden> goldens() {
  return {{GOLDEN "/checkpoint-1-gpt", tiny(gpt()), DType::bf16, 2}, {GOLDEN "/checkpoint-1-llama", tiny(llama()), DType::f32, 3}};
}

}  // namespace

// To add one for a new major: --gtest_also_run_disabled_tests --gtest_filter=*Make*
TEST(Golden, DISABLED_Make) {
  for (const auto& g : goldens()) {
    if (fs::exists(g.folder)) continue;
    save(g.folder, state(g.model, g.dtype, 3), g.ranks);
    fs::remove(std::string(g.folder) + "/latest");
  }
}

TEST(Golden, Major1ReadsAsItWasWritten) {
  for (const auto& g : goldens()) {
    const auto found = checkpoint::find_latest_whole(g.folder, checkpoint::Verify::everything);
    ASSERT_TRUE(found) << g.folder;
    checkpoint::Reader reader(found.path);
    EXPECT_EQ(checkpoint::state_to_json(reader.state()), checkpoint::state_to_json(state(g.model, g.dtype, 3)));
    EXPECT_EQ(reader.manifest().ranks, g.ranks);
    for (int ranks : {1, 2, 5}) EXPECT_EQ(differences(reader, ranks), 0) << g.folder;
  }
}

// Fingerprints and norms as they were, so that the fingerprint's definition cannot change unseen.
TEST(Golden, FingerprintsKeepTheirMeaning) {
  checkpoint::Reader reader(GOLDEN "/checkpoint-1-gpt/step-00000003");
  for (const auto& t : reader.tensors()) {
    if (t.kind == checkpoint::Kind::model) continue;
    std::int64_t count = 1;
    for (auto d : t.shape) count *= d;
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t bits = std::bit_cast<std::uint32_t>(value(t.kind, t.name, i, DType::bf16));
      std::uint64_t h = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ull ^ (bits + 0xD1B54A32D192ED03ull);
      h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93ull;
      h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93ull;
      sum += h ^ (h >> 32);
    }
    EXPECT_EQ(sum, t.fingerprint) << t.path;
  }
}
