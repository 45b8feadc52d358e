// Parity with PyTorch: initial values, ten losses, first gradients of a GPT-2 and a Llama (golden files of
// tests/golden/pytorch_golden.py).
#include "tests/model/small_model.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

namespace trainyard::test {
namespace {

using nlohmann::json;

struct Golden {
  json page;
  std::vector<float> gradients;
  plan::ModelConfig model;
  bool document_mask;

  explicit Golden(const std::string& name) {
    const char* elsewhere = std::getenv("TRAINYARD_GOLDEN_FOLDER");  // of a bundle
    const std::string stem = std::string(elsewhere != nullptr ? elsewhere : TRAINYARD_GOLDEN_FOLDER) + "/" + name;
    std::ifstream text(stem + ".json");
    page = json::parse(text);
    std::ifstream raw(stem + ".f32", std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(raw), {}};
    gradients.resize(bytes.size() / 4);
    std::memcpy(gradients.data(), bytes.data(), bytes.size());
    const auto& m = page["model"];
    model.name = name;
    model.layers = m["layers"], model.hidden = m["hidden"], model.heads = m["heads"], model.kv_heads = m["kv_heads"];
    model.ffn = m["ffn"], model.vocabulary = m["vocabulary"], model.context = m["context"];
    const bool layer_norm = m["norm"] == "layer";
    model.norm = layer_norm ? plan::Norm::layer : plan::Norm::rms;
    model.positions = layer_norm ? plan::Positions::learned : plan::Positions::rotary;
    model.activation = layer_norm ? plan::Activation::gelu_tanh : plan::Activation::swiglu;
    model.biases = m["biases"], model.tied = m["tied"];
    model.norm_epsilon = m["norm_epsilon"], model.rotary_base = m["rotary_base"];
    document_mask = m["document_mask"];
  }
  const json& tensor(const std::string& name) const {
    for (const auto& t : page["tensors"])
      if (t["name"] == name) return t;
    throw std::runtime_error("no tensor " + name);
  }
};

// AdamW in double on the master values; the gradient scale and clip of the reference.
class Adam {
 public:
  explicit Adam(const PlainStore& store) {
    for (const auto& u : store.master) m_.emplace_back(u.size(), 0.0), v_.emplace_back(u.size(), 0.0);
  }
  double step(PlainStore& store, const json& run, std::int64_t targets) {
    const auto every = [&](auto&& f) {
      for (std::size_t u = 0; u < store.units.size(); ++u)
        for (std::size_t p = 0; p < store.units[u].parameters.size(); ++p)
          for (std::int64_t i = 0; i < store.units[u].parameters[p].count(); ++i)
            f(u, p, i, store.gradient_of(static_cast<int>(u), static_cast<int>(p), i) / static_cast<double>(targets));
    };
    double squares = 0;
    every([&](std::size_t, std::size_t, std::int64_t, double g) { squares += g * g; });
    const double norm = std::sqrt(squares), scale = std::min(1.0, run["clip"].get<double>() / (norm + 1e-6));
    const double b1 = run["beta1"], b2 = run["beta2"], lr = run["learning_rate"], eps = run["epsilon"],
                 wd = run["weight_decay"];
    ++t_;
    const double c1 = 1 - std::pow(b1, t_), c2 = 1 - std::pow(b2, t_);
    every([&](std::size_t u, std::size_t p, std::int64_t i, double g) {
      const auto at = static_cast<std::size_t>(store.layouts[u].offsets[p] + i);
      g *= scale;
      double& m = m_[u][at] = b1 * m_[u][at] + (1 - b1) * g;
      double& v = v_[u][at] = b2 * v_[u][at] + (1 - b2) * g * g;
      double& w = store.master[u][at];
      w -= lr * (m / c1 / (std::sqrt(v / c2) + eps) + (store.units[u].parameters[p].decay ? wd : 0.0) * w);
    });
    store.publish();
    return norm;
  }

 private:
  std::vector<std::vector<double>> m_, v_;
  int t_ = 0;
};

void compare_gradients(const Golden& golden, const PlainStore& store, std::int64_t targets, double tolerance) {
  for (std::size_t u = 0; u < store.units.size(); ++u)
    for (std::size_t p = 0; p < store.units[u].parameters.size(); ++p) {
      const auto& parameter = store.units[u].parameters[p];
      const auto& t = golden.tensor(parameter.name);
      const float* want = golden.gradients.data() + t["offset"].get<std::size_t>();
      double difference = 0, norm = 0;
      for (std::int64_t i = 0; i < parameter.count(); ++i) {
        const double got =
            store.gradient_of(static_cast<int>(u), static_cast<int>(p), i) / static_cast<double>(targets);
        difference += (got - want[i]) * (got - want[i]);
        norm += static_cast<double>(want[i]) * want[i];
      }
      // The gradient of a key bias is zero but for rounding: softmax does not see a shift of all scores.
      const bool zero = parameter.name.ends_with("attention.k.bias");
      EXPECT_LE(std::sqrt(difference), zero ? 1e-5 * tolerance + 1e-7 : tolerance * std::sqrt(norm)) << parameter.name;
      EXPECT_TRUE(zero || norm > 0) << parameter.name;
    }
}

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
    if (s == 0) compare_gradients(golden, store, result.targets, gradient_tolerance);
    const double norm = adam.step(store, run, result.targets);
    EXPECT_NEAR(norm, golden.page["gradient_norms"][static_cast<std::size_t>(s)].get<double>(),
                loss_tolerance * 10 * norm + 1e-5)
        << name << " step " << s + 1;
  }
}

TEST(PyTorch, Gpt2F32) { parity("gpt2", base::DType::f32, 1e-5, 1e-4, "losses"); }
TEST(PyTorch, LlamaF32) { parity("llama", base::DType::f32, 1e-5, 1e-4, "losses"); }
// In double only the rounding of the stored gradients (float32) and of the rotary angles is left.
TEST(PyTorch, Gpt2F64) { parity("gpt2", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST(PyTorch, LlamaF64) { parity("llama", base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
// Sums in as many slices as there are heads of keys and values.
TEST(PyTorch, InLanes) {
  parity("gpt2", base::DType::f32, 1e-5, 1e-4, "losses", Golden("gpt2").model.kv_heads);
  parity("llama", base::DType::f32, 1e-5, 1e-4, "losses", Golden("llama").model.kv_heads);
  parity("gpt2", base::DType::f64, 1e-9, 1e-6, "losses_float64", Golden("gpt2").model.kv_heads);
}
TEST(PyTorch, Gpt2Bf16) { parity("gpt2", base::DType::bf16, 5e-3, 0.1, "losses"); }

TEST(PyTorch, InitialValues) {
  for (const char* name : {"gpt2", "llama"}) {
    const Golden golden(name);
    const PlainStore store(golden.model, base::DType::f32, golden.page["run"]["seed"].get<std::uint64_t>());
    std::size_t seen = 0;
    for (std::size_t u = 0; u < store.units.size(); ++u)
      for (std::size_t p = 0; p < store.units[u].parameters.size(); ++p, ++seen) {
        const auto& parameter = store.units[u].parameters[p];
        const auto& t = golden.tensor(parameter.name);
        EXPECT_EQ(t["shape"].get<std::vector<std::int64_t>>(), parameter.shape) << parameter.name;
        const double* w = store.master[u].data() + store.layouts[u].offsets[p];
        for (std::size_t i = 0; i < t["initial"].size(); ++i)
          EXPECT_FLOAT_EQ(static_cast<float>(w[i]), t["initial"][i].get<float>()) << parameter.name << " " << i;
        double sum = 0;
        for (std::int64_t i = 0; i < parameter.count(); ++i) sum += w[i];
        EXPECT_NEAR(sum, t["initial_sum"].get<double>(), 1e-6) << parameter.name;
      }
    EXPECT_EQ(seen, golden.page["tensors"].size()) << name;
  }
}

}  // namespace
}  // namespace trainyard::test
