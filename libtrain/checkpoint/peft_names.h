// Where the adapters of a model are in files of peft.
#pragma once

#include "libtrain/checkpoint/hugging_face.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// The adapter of one linear layer: our parameters, and the module of the family that it belongs to.
struct PeftModule {
  std::string a, b;    // names of parameters
  std::string module;  // "model.layers.0.self_attn.q_proj"
  std::string name_of_a() const { return "base_model.model." + module + ".lora_A.weight"; }
  std::string name_of_b() const { return "base_model.model." + module + ".lora_B.weight"; }
};
struct PeftModules {
  std::vector<PeftModule> modules;
  bool transposed = false;           // the family keeps [in, out]
  std::vector<std::string> targets;  // target_modules: last components of names, or whole names if these are ambiguous
};
// Of a model with adapters. InputError, which begins with `where`, for a layer that the family joins with others.
PeftModules peft_modules(const Family& family, const plan::ModelConfig& model, const std::string& where);

// The modules that have an adapter according to adapter_config.json; peft ignores tensors of all others.
struct PeftSelection {
  // Names or their last components, or an expression that is the whole name. Nothing: peft's own list for the family.
  struct Names {
    std::vector<std::string> listed;
    std::string expression;
    bool given = false;
  };
  Names targets, excluded;
  std::vector<std::int64_t> layers;   // layers_to_transform; empty: all
  std::vector<std::string> patterns;  // layers_pattern: the components before the number of the layer; empty: any
  // Why it does not take a module, as a key of the file; empty: it does. InputError, beginning with `where`, for an
  // expression that cannot be read here.
  std::string left_out_by(const std::string& module, const std::string& where) const;
};

// What adapter_config.json says. InputError, beginning with `where`, for what would change results and has no meaning
// here.
struct PeftConfig {
  std::int64_t rank = 0;
  double alpha = 1;      // B A is multiplied by alpha / rank,
  bool by_root = false;  // or by alpha / sqrt(rank) (Kalajdzievski 2023, "rsLoRA")
  PeftSelection selection = {};
  // The alpha of an adapter of another rank with the same factor.
  double alpha_of(std::int64_t other) const {
    const auto r = static_cast<double>(rank), to = static_cast<double>(other);
    if (by_root) return alpha * to / std::sqrt(r);
    return rank == other ? alpha : alpha * to / r;
  }
};
PeftConfig peft_config(const nlohmann::json& config, const std::string& where);

}  // namespace trainyard::checkpoint
