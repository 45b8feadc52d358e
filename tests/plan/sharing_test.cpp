// Tests which tensor-parallel degrees a model allows, and which one is suggested in place of another.
#include "libtrain/plan/blocks/sharing.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

namespace trainyard::plan {

namespace {

std::string answer(ModelConfig m, int tensor) {
  if (m.vocabulary == 0) m.vocabulary = 50257;
  const Sharing sharing(m);
  const auto wrong = sharing.obstacle(tensor);
  if (wrong.empty()) return "";
  return wrong + " | " + tensor_flags(sharing.nearest(tensor, [](std::int64_t) { return true; }));
}

}  // namespace

TEST(Sharing, HeadsWidthsAndTheStoredVocabularyComeOutEven) {
  for (const int tensor : {1, 2, 4, 8}) EXPECT_EQ(answer(preset("llama-8b"), tensor), "");
  EXPECT_EQ(answer(preset("llama-8b"), 3),
            "--tensor-parallel 3 does not divide kv-heads 8 | --tensor-parallel 2 or --tensor-parallel 4");
  EXPECT_EQ(answer(preset("llama-8b"), 16),
            "--tensor-parallel 16 is more than the model's 8 key-value heads: some ranks would have none | "
            "--tensor-parallel 8");
  EXPECT_EQ(answer(preset("gpt2"), 12),  // 50,304 rows and 3072 of the inner width are multiples of 12
            "");
  EXPECT_EQ(answer(preset("gpt2-xl"), 5),
            "--tensor-parallel 5 does not divide the stored vocabulary 50304 | --tensor-parallel 1");
  auto m = preset("gpt2");
  m.ffn = 3070;
  EXPECT_EQ(answer(m, 4), "--tensor-parallel 4 does not divide ffn 3070 | --tensor-parallel 2");
}

}  // namespace trainyard::plan
