// Parity with PyTorch: initial values, ten losses, first gradients (golden files of tests/golden/pytorch_golden.py).
// The models are a GPT-2, a Llama, a post-norm model with exact GELU, a BERT, and parts of Qwen 3, Gemma 2, OLMo 2,
// NeoX and OPT. Others are BERTs that learn hidden tokens from both sides, and models with block-sparse attention or
// windows, which PyTorch masks. And some have an encoder before their decoder.
#include "libtrain/data/masking.h"
#include "tests/model/golden_model.h"

#include <memory>

namespace trainyard::test {
namespace pytorch_golden_test {

// The micro-batch of a step: next-token targets, or tokens hidden by the library's rule.
std::unique_ptr<Batch> batch_of(const Golden& golden, int step) {
  const auto& run = golden.page["run"];
  const std::int64_t b = run["batch"], t = run["sequence"];
  const bool causal = golden.model.attention.causal;
  const auto mask = static_cast<std::int32_t>(golden.model.vocabulary - 1);
  const data::Masking masking{0.15, mask, mask, 0, {}};
  const auto seed = run["seed"].get<std::uint64_t>();
  const Hide hide = [&](std::uint64_t sample, std::int64_t n, std::int32_t* tokens, std::int32_t* targets,
                        std::uint8_t* weights) {
    data::mask_tokens(masking, data::MaskDraws::of_training(seed, sample), n,
                      {tokens, targets, nullptr, nullptr, weights});
  };
  auto batch =
      std::make_unique<Batch>(formula_windows(causal ? mask + 1 : mask, step, b, t, golden.document_mask),
                              golden.document_mask, static_cast<std::uint64_t>(step * b), causal ? Hide() : hide);
  if (!causal && golden.document_mask) batch->end_documents();
  if (golden.model.encoder_layers > 0)
    batch->add_sources(formula_windows(golden.model.vocabulary, step + 50, b, run["source"], golden.document_mask),
                       golden.document_mask);
  return batch;
}

// T5 as transformers computes it. The inputs of its decoder begin with token 0.
std::unique_ptr<Batch> shifted_batch_of(const Golden& golden, int step) {
  const auto& run = golden.page["run"];
  const std::int64_t b = run["batch"], vocabulary = golden.model.vocabulary;
  auto windows = formula_windows(vocabulary, step, b, run["sequence"], false);
  for (auto& window : windows) window[0] = golden.model.decoder_start;
  auto batch = std::make_unique<Batch>(windows, false, static_cast<std::uint64_t>(step * b));
  batch->add_sources(formula_windows(vocabulary, step + 50, b, run["source"], false), false);
  return batch;
}

void parity(const std::string& name, base::DType dtype, double loss_tolerance, double gradient_tolerance,
            const char* losses, std::int64_t lanes = 1) {
  Golden golden(name);
  golden.model.lanes = lanes;
  const auto& run = golden.page["run"];
  const std::int64_t b = run["batch"], t = run["sequence"];
  PlainStore store(golden.model, dtype, run["seed"].get<std::uint64_t>());
  Runner runner(golden.model, {{.batch = b, .sequence = t}, {.dtype = dtype, .threads = 2}, run.value("source", 0)});
  runner.label_smoothing = run.value("label_smoothing", 0.0);
  Adam adam(store);
  for (int s = 0; s < run["steps"].get<int>(); ++s) {
    const auto batch = golden.model.decoder_start >= 0 ? shifted_batch_of(golden, s) : batch_of(golden, s);
    const auto result = runner.train(store, *batch);
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
// Norms of queries and keys, heads of another size, scaled angles, biases of q, k and v.
TEST(PyTorch, HeadNormsF32) {
  parity("head-norm", base::DType::f32, 1e-5, 1e-4, "losses");
  parity("width-norm", base::DType::f32, 1e-5, 1e-4, "losses");
}
// Norms in other places, branches side by side, a cap on logits, scaled embeddings, unused positions.
const char* const variants[] = {"sandwich", "inside-post", "parallel", "relu"};
TEST(PyTorch, VariantsF32) {
  for (const auto* name : variants) parity(name, base::DType::f32, 1e-5, 1e-4, "losses");
}
TEST(PyTorch, VariantsF64) {
  for (const auto* name : variants) parity(name, base::DType::f64, 1e-9, 1e-6, "losses_float64");
}
TEST(PyTorch, VariantsBf16) {
  for (const auto* name : variants) parity(name, base::DType::bf16, 5e-3, 0.1, "losses");
}
// A vocabulary of 131 is stored in 256 rows, which have no share of a target.
const char* const smoothed[] = {"smooth-llama", "smooth-masked"};
TEST(PyTorch, SmoothedF32) {
  for (const auto* name : smoothed) parity(name, base::DType::f32, 1e-5, 1e-4, "losses");
}
TEST(PyTorch, SmoothedF64) {
  for (const auto* name : smoothed) parity(name, base::DType::f64, 1e-9, 1e-6, "losses_float64");
  parity("smooth-llama", base::DType::f64, 1e-9, 1e-6, "losses_float64", 2);
}
TEST(PyTorch, SmoothedBf16) {
  for (const auto* name : smoothed) parity(name, base::DType::bf16, 5e-3, 0.1, "losses");
}
TEST(PyTorch, MaskedF32) {
  parity("masked", base::DType::f32, 1e-5, 1e-4, "losses");
  parity("masked-documents", base::DType::f32, 1e-5, 1e-4, "losses");
}
TEST(PyTorch, SparseBertF32) { parity("sparse-bert", base::DType::f32, 1e-5, 1e-4, "losses"); }
TEST(PyTorch, SparseGpt2F32) { parity("sparse-gpt2", base::DType::f32, 1e-5, 1e-4, "losses"); }
TEST(PyTorch, SparseLlamaF32) { parity("sparse-llama", base::DType::f32, 1e-5, 1e-4, "losses"); }
TEST(PyTorch, WindowedLlamaF32) { parity("windowed-llama", base::DType::f32, 1e-5, 1e-4, "losses"); }
// In double only two roundings are left: of the stored gradients (float32) and of the rotary angles.
TEST(PyTorch, Gpt2F64) { parity("gpt2", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, PostNormF64) { parity("post", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, BertF64) { parity("bert", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, LlamaF64) { parity("llama", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, HeadNormsF64) {
  parity("head-norm", base::DType::f64, 1e-9, 1e-6, "losses_float64");
  parity("width-norm", base::DType::f64, 1e-9, 1e-6, "losses_float64", Golden("width-norm").model.kv_heads);
}
TEST(PyTorch, MaskedF64) {
  parity("masked", base::DType::f64, 1e-9, 1e-6, "losses_float64");
  parity("masked-documents", base::DType::f64, 1e-9, 1e-6, "losses_float64");
}
TEST(PyTorch, SparseBertF64) { parity("sparse-bert", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, SparseGpt2F64) { parity("sparse-gpt2", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, SparseLlamaF64) { parity("sparse-llama", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, WindowedLlamaF64) { parity("windowed-llama", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
// Products with as many reduction lanes as there are key-value heads.
TEST(PyTorch, InLanes) {
  parity("gpt2", base::DType::f32, 1e-5, 1e-4, "losses", Golden("gpt2").model.kv_heads);
  parity("llama", base::DType::f32, 1e-5, 1e-4, "losses", Golden("llama").model.kv_heads);
  parity("gpt2", base::DType::f64, 1e-9, 1e-6, "losses_float64", Golden("gpt2").model.kv_heads);
  parity("sparse-bert", base::DType::f64, 1e-9, 1e-6, "losses_float64", Golden("sparse-bert").model.kv_heads);
}
TEST(PyTorch, Gpt2Bf16) { parity("gpt2", base::DType::bf16, 5e-3, 0.1, "losses"); }
TEST(PyTorch, PostNormBf16) { parity("post", base::DType::bf16, 5e-3, 0.1, "losses"); }
TEST(PyTorch, BertBf16) { parity("bert", base::DType::bf16, 5e-3, 0.1, "losses"); }
TEST(PyTorch, MaskedBf16) { parity("masked", base::DType::bf16, 5e-3, 0.1, "losses"); }
TEST(PyTorch, HeadNormsBf16) {
  for (const char* name : {"head-norm", "width-norm"}) parity(name, base::DType::bf16, 5e-3, 0.1, "losses");
}
TEST(PyTorch, SparseBf16) {
  for (const char* name : {"sparse-bert", "sparse-gpt2", "sparse-llama", "windowed-llama"})
    parity(name, base::DType::bf16, 5e-3, 0.1, "losses");
}

// Encoder-decoder models, with segments and without.
const char* const encoders[] = {"encoder-gpt2",     "encoder-llama",    "encoder-post",
                                "encoder-sandwich", "encoder-relative", "encoder-relative-gated"};
TEST(PyTorch, EncodersF32) {
  for (const auto* name : encoders) parity(name, base::DType::f32, 1e-5, 1e-4, "losses");
}
TEST(PyTorch, EncodersF64) {
  for (const auto* name : encoders) parity(name, base::DType::f64, 1e-9, 1e-6, "losses_float64");
}
// With the initial values of the last one, attention to the source is nearly uniform, so what bf16 rounds off is as
// large as the gradients of its queries and keys.
TEST(PyTorch, EncodersBf16) {
  for (const auto* name : {encoders[0], encoders[1], encoders[2], encoders[4], encoders[5]})
    parity(name, base::DType::bf16, 5e-3, 0.1, "losses");
}

const char* const t5_models[] = {"t5", "t5-v1.1"};
TEST(PyTorch, T5F32) {
  for (const auto* name : t5_models) parity(name, base::DType::f32, 1e-5, 1e-4, "losses");
}
TEST(PyTorch, T5F64) {
  for (const auto* name : t5_models) parity(name, base::DType::f64, 1e-6, 1e-5, "losses_float64");
}
TEST(PyTorch, T5Bf16) {
  for (const auto* name : t5_models) parity(name, base::DType::bf16, 1e-2, 0.1, "losses");
}

TEST(PyTorch, InitialValues) {
  for (const char* name : {"gpt2",
                           "llama",
                           "head-norm",
                           "width-norm",
                           "post",
                           "bert",
                           "masked",
                           "sandwich",
                           "inside-post",
                           "parallel",
                           "relu",
                           "sparse-bert",
                           "sparse-gpt2",
                           "sparse-llama",
                           "encoder-gpt2",
                           "encoder-llama",
                           "encoder-post",
                           "encoder-sandwich",
                           "encoder-relative",
                           "encoder-relative-gated",
                           "t5",
                           "t5-v1.1"})
    compare_initial_values(name);
}

}  // namespace pytorch_golden_test
}  // namespace trainyard::test
