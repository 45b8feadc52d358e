// Golden models that PyTorch made (tests/golden): the model, its losses and gradients, and the same AdamW.
#pragma once

#include "tests/model/small_model.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trainyard::test {

using nlohmann::json;

struct Golden {
  json page;
  std::vector<float> gradients;
  plan::ModelConfig model;
  bool document_mask;

  explicit Golden(const std::string& name) {
    const char* elsewhere = std::getenv("TRAINYARD_GOLDEN_FOLDER");  // set in a copied bundle
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
    const auto positions = m.value("positions", layer_norm ? "learned" : "rotary");
    model.positions = positions == "learned"  ? plan::Positions::learned
                      : positions == "rotary" ? plan::Positions::rotary
                                              : plan::Positions::relative;
    model.relative_buckets = m.value("relative_buckets", model.relative_buckets);
    model.relative_distance = m.value("relative_distance", model.relative_distance);
    using enum plan::Activation;
    const std::map<std::string, plan::Activation> activations{
        {"", layer_norm ? gelu_tanh : swiglu}, {"gelu_erf", gelu_erf},     {"relu", relu},
        {"relu_squared", relu_squared},        {"geglu_tanh", geglu_tanh}, {"geglu_erf", geglu_erf}};
    model.activation = activations.at(m.value("activation", ""));
    using enum plan::NormPosition;
    const std::map<std::string, plan::NormPosition> norm_positions{
        {"", pre}, {"post", post}, {"inside_post", inside_post}, {"sandwich", sandwich}};
    model.norm_position = norm_positions.at(m.value("norm_position", ""));
    model.parallel_residual = m.value("parallel_residual", false), model.norm_offset = m.value("norm_offset", 0.0);
    model.embedding_scale = m.value("embedding_scale", 1.0), model.logit_softcap = m.value("logit_softcap", 0.0);
    model.position_offset = m.value("position_offset", 0);
    model.embedding_norm = m.value("embedding_norm", false), model.segments = m.value("segments", 0);
    if (m.value("head", "") == "masked") model.head = plan::HeadForm::masked;
    model.biases = m["biases"] == "qkv"  ? plan::Biases::qkv
                   : m["biases"] == true ? plan::Biases::on
                                         : plan::Biases::off;
    model.tied = m["tied"];
    set_heads(m);
    model.norm_epsilon = m["norm_epsilon"], model.rotary_base = m["rotary_base"];
    document_mask = m["document_mask"];
    if (m.contains("experts")) set_experts(m["experts"]);
    model.attention.causal = m.value("causal", true);
    model.attention.window_tokens = m.value("window_tokens", model.attention.window_tokens);
    model.attention.softcap = m.value("softcap", 0.0);
    if (m.contains("attention")) set_blocks(m["attention"]);
    model.head_scale = m.value("head_scale", 1.0), model.decoder_start = m.value("decoder_start", -1);
    if (m.value("fan_in", false)) model.initial_values = plan::InitialValues::fan_in;
    model.encoder_layers = m.value("encoder_layers", 0), model.decoder_layers = m.value("decoder_layers", 0);
  }
  void set_heads(const json& m) {
    model.head_size = m.value("head_size", 0), model.query_scale = m.value("query_scale", 0.0);
    const auto norm = m.value("qk_norm", "");
    model.qk_norm = norm == "head" ? plan::QkNorm::head : norm == "width" ? plan::QkNorm::width : plan::QkNorm::none;
    if (!m.contains("rotary")) return;
    const auto& from = m["rotary"];
    auto& r = model.rotary;
    r.scaling = from["scaling"] == "yarn" ? plan::RotaryScaling::yarn : plan::RotaryScaling::llama3;
    r.factor = from["factor"], r.original = from["original"], r.fraction = from.value("fraction", 1.0);
    r.low = from.value("low", r.low), r.high = from.value("high", r.high);
  }
  void set_blocks(const json& b) {
    auto& a = model.attention;
    a.layout = b["layout"].get<std::vector<std::string>>(), a.block = b["block"], a.window = b["window"];
    if (b.contains("local")) a.local = b["local"].get<std::vector<std::int64_t>>();
    a.patterns = b.value("patterns", a.patterns), a.global_blocks = b.value("global_blocks", a.global_blocks);
    a.random = b.value("random", a.random), a.per_head = b.value("per_head", false), a.seed = b.value("seed", a.seed);
  }
  void set_experts(const json& e) {
    auto& x = model.experts;
    x.count = e["counts"].get<std::vector<std::int64_t>>(), x.every = e["every"], x.dense_layers = e["dense_layers"];
    x.top_k = e["top_k"], x.ffn = e["ffn"], x.capacity_factor = e["capacity"], x.min_capacity = e["min_capacity"];
    x.overflow = e["overflow"] == "random"     ? plan::Overflow::random
                 : e["overflow"] == "position" ? plan::Overflow::position
                                               : plan::Overflow::probability;
    x.score = e["score"] == "sigmoid" ? plan::GateScore::sigmoid : plan::GateScore::softmax;
    x.bias_rate = e["bias_rate"], x.balance_loss = e["balance"], x.z_loss = e["z"];
    x.shared = e["shared"], x.residual = e["residual"];
  }
  const json& tensor(const std::string& name) const {
    for (const auto& t : page["tensors"])
      if (t["name"] == name) return t;
    throw std::runtime_error("no tensor " + name);
  }
};

// The gradient of one element of a parameter.
using GradientOf = std::function<double(std::size_t flat_group, std::size_t parameter, std::int64_t element)>;
inline GradientOf gradient_of(const PlainStore& store) {
  return [&store](std::size_t u, std::size_t p, std::int64_t i) {
    return store.gradient_of(static_cast<int>(u), static_cast<int>(p), i);
  };
}

// AdamW in double on the master values, with the gradient scale and the clipping of the reference.
class Adam {
 public:
  explicit Adam(const PlainStore& store) {
    for (const auto& u : store.master) m_.emplace_back(u.size(), 0.0), v_.emplace_back(u.size(), 0.0);
  }
  double step(PlainStore& store, const json& run, std::int64_t targets) {
    return step(store, run, targets, gradient_of(store));
  }
  double step(PlainStore& store, const json& run, std::int64_t targets, const GradientOf& gradient) {
    const auto every = [&](auto&& f) {
      for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
        for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p) {
          const auto& parameter = store.flat_groups[u].parameters[p];
          if (parameter.update.kind != plan::Update::Kind::optimizer) continue;
          for (std::int64_t i = 0; i < parameter.count(); ++i)
            f(u, p, i, gradient(u, p, i) / static_cast<double>(targets));
        }
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
      w -= lr * (m / c1 / (std::sqrt(v / c2) + eps) + (store.flat_groups[u].parameters[p].decay ? wd : 0.0) * w);
    });
    store.publish();
    return norm;
  }

 private:
  std::vector<std::vector<double>> m_, v_;
  int t_ = 0;
};

inline void compare_gradients(const Golden& golden, const PlainStore& store, std::int64_t targets, double tolerance,
                              const GradientOf& gradient) {
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p) {
      const auto& parameter = store.flat_groups[u].parameters[p];
      if (parameter.update.kind != plan::Update::Kind::optimizer) continue;
      const auto& t = golden.tensor(parameter.name);
      const float* want = golden.gradients.data() + t["offset"].get<std::size_t>();
      double difference = 0, norm = 0;
      for (std::int64_t i = 0; i < parameter.count(); ++i) {
        const double got = gradient(u, p, i) / static_cast<double>(targets);
        difference += (got - want[i]) * (got - want[i]);
        norm += static_cast<double>(want[i]) * want[i];
      }
      // The gradient of a key bias is zero but for rounding: softmax ignores a shift of all scores. Rotations and norms
      // of keys make other shifts of it.
      const bool plain = golden.model.positions != plan::Positions::rotary;
      const bool zero = plain && parameter.name.ends_with("attention.k.bias");
      EXPECT_LE(std::sqrt(difference), zero ? 1e-5 * tolerance + 1e-7 : tolerance * std::sqrt(norm)) << parameter.name;
      EXPECT_TRUE(zero || norm > 0) << parameter.name;
    }
}

inline void compare_initial_values(const std::string& name) {
  const Golden golden(name);
  const PlainStore store(golden.model, base::DType::f32, golden.page["run"]["seed"].get<std::uint64_t>());
  std::size_t seen = 0;
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p, ++seen) {
      const auto& parameter = store.flat_groups[u].parameters[p];
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

}  // namespace trainyard::test
