// Parity with PyTorch: initial values, ten losses, first gradients of a GPT-2, a Llama, a model with norms
// behind branches and exact GELU, and a BERT (golden files of tests/golden/pytorch_golden.py).
#include "tests/model/golden_model.h"

namespace trainyard::test {
namespace {

void parity(const std::string& name, base::DType dtype, double loss_tolerance, double gradient_tolerance,
            const char* losses, std::int64_t lanes = 1) {
  Golden golden(name);
  golden.model.lanes = lanes;
  const auto& run = golden.page["run"];
  const std::int64_t b = run["batch"], t = run["sequence"];
  PlainStore store(golden.model, dtype, run["seed"].get<std::uint64_t>());
  Runner runner(golden.model, {b, t, dtype, 2});
  Adam adam(store);
  for (int s = 0; s < run["steps"].get<int>(); ++s) {
    const Batch batch(formula_windows(golden.model.vocabulary, s, b, t, golden.document_mask), golden.document_mask);
    const auto result = runner.train(store, batch);
    const double loss = result.loss_sum / static_cast<double>(result.targets),
                 want = golden.page[losses][static_cast<std::size_t>(s)];
    EXPECT_NEAR(loss, want, loss_tolerance * want) << name << " step " << s + 1;
    if (s == 0) compare_gradients(golden, store, result.targets, gradient_tolerance, gradient_of(store));
    const double norm = adam.step(store, run, result.targets);
    EXPECT_NEAR(norm, golden.page["gradient_norms"][static_cast<std::size_t>(s)].get<double>(),
                loss_tolerance * 10 * norm + 1e-5)
        << name << " step " << s + 1;
  }
}

TEST(PyTorch, Gpt2F32) { parity("gpt2", base::DType::f32, 1e-5, 1e-4, "losses"); }
TEST(PyTorch, PostNormF32) { parity("post", base::DType::f32, 1e-5, 1e-4, "losses"); }
TEST(PyTorch, BertF32) { parity("bert", base::DType::f32, 1e-5, 1e-4, "losses"); }
TEST(PyTorch, LlamaF32) { parity("llama", base::DType::f32, 1e-5, 1e-4, "losses"); }
// In double only the rounding of the stored gradients (float32) and of the rotary angles is left.
TEST(PyTorch, Gpt2F64) { parity("gpt2", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, PostNormF64) { parity("post", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, BertF64) { parity("bert", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, LlamaF64) { parity("llama", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
// Sums in as many slices as there are heads of keys and values.
TEST(PyTorch, InLanes) {
  parity("gpt2", base::DType::f32, 1e-5, 1e-4, "losses", Golden("gpt2").model.kv_heads);
  parity("llama", base::DType::f32, 1e-5, 1e-4, "losses", Golden("llama").model.kv_heads);
  parity("gpt2", base::DType::f64, 1e-9, 1e-6, "losses_float64", Golden("gpt2").model.kv_heads);
}
TEST(PyTorch, Gpt2Bf16) { parity("gpt2", base::DType::bf16, 5e-3, 0.1, "losses"); }
TEST(PyTorch, PostNormBf16) { parity("post", base::DType::bf16, 5e-3, 0.1, "losses"); }
TEST(PyTorch, BertBf16) { parity("bert", base::DType::bf16, 5e-3, 0.1, "losses"); }

TEST(PyTorch, InitialValues) {
  for (const char* name : {"gpt2", "llama", "post", "bert"}) compare_initial_values(name);
}

}  // namespace
}  // namespace trainyard::test
