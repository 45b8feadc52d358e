// Low-rank adapters on tensor-parallel ranks: the same bits as one rank, the predicted memory and collectives.
#include "tests/model/tensor_bits.h"

namespace trainyard::test {
namespace tensor_adapters_test {

using namespace tensor_bits;

TEST(TensorAdapters, SameBitsAndPredictedMemory) {
  const std::vector<std::string> some = {"v", "down"};
  int n = 0;
  for (const auto& base : {small_gpt2(), small_llama(), small_post(), small_sandwich()})
    for (const auto dtype : {DType::f32, DType::bf16}) {
      auto m = with_adapters(with_dropout(eight_heads(base, 4)), ++n % 3 == 0 ? some : std::vector<std::string>());
      if (n % 4 == 3) m.qk_norm = n % 8 == 3 ? plan::QkNorm::head : plan::QkNorm::width;
      const Batch batch(formula_windows(m.vocabulary, 0, 2, 128, true), true, 40);
      const plan::MicroShape shape{{2, 128}, {dtype, 1}};
      const auto want = one_rank(m, shape, batch);
      for (const int ranks : {2, 4})
        for (const bool rows : {false, true})
          expect_same(m, shape, batch, want,
                      {ranks, rows, plan::recomputations[static_cast<std::size_t>(ranks / 2 + rows + n) % 3]});
    }
}
// Three lanes of six on each of two ranks are added from left to right.
TEST(TensorAdapters, OddLanes) {
  auto m = with_adapters(eight_heads(small_llama(), 6));
  m.layers = 1, m.hidden = 48, m.heads = 12, m.kv_heads = 6, m.ffn = 96;
  const Batch batch(formula_windows(m.vocabulary, 0, 2, 128, true), true);
  const plan::MicroShape shape{{2, 128}, {DType::f32, 1}};
  const auto want = one_rank(m, shape, batch);
  for (const bool rows : {false, true}) expect_same(m, shape, batch, want, {2, rows, plan::Recompute::layers});
}
TEST(TensorAdapters, Small) {
  small(with_adapters(small_llama()));
  small(with_adapters(small_gpt2(), {"q", "o"}));
}

}  // namespace tensor_adapters_test
}  // namespace trainyard::test
