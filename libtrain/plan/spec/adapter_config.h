// AdapterConfig: low-rank matrices beside frozen weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::plan {

// Hu et al. 2021, "LoRA: low-rank adaptation of large language models". Beside a linear layer y = W x are two matrices,
// A [rank, in] and B [out, rank], and y = W x + B (scale * A x). Only these matrices are trained. All other parameters
// are frozen: they have neither gradients nor states of the optimizer.
struct AdapterConfig {
  std::int64_t rank = 0;                       // 0: the model has no adapter
  double alpha = 0;                            // the scale is alpha / rank; 0: the scale is 1
  std::vector<std::string> on = {"q", "v"};    // the layers that have one: of adapter_targets
  bool is_on(std::string_view target) const {  // of a model that has an adapter
    return std::find(on.begin(), on.end(), target) != on.end();
  }
  double scale() const { return alpha > 0 ? alpha / static_cast<double>(rank) : 1; }
  bool operator==(const AdapterConfig&) const = default;
};

// A linear layer that may have an adapter. `layer` is its name in a flat group of layers, in front of ".weight".
// divides_outputs: tensor-parallel ranks divide its outputs (column-parallel), otherwise its inputs (row-parallel).
struct AdapterTarget {
  std::string_view name, layer;
  bool divides_outputs;
};
inline constexpr AdapterTarget adapter_targets[] = {
    {"q", "attention.q", true},       {"k", "attention.k", true}, {"v", "attention.v", true},
    {"o", "attention.output", false}, {"gate", "ffn.gate", true}, {"up", "ffn.up", true},
    {"down", "ffn.down", false},
};

// Vectors of a product in bf16 on a GPU have 8 elements.
inline constexpr std::int64_t adapter_rank_multiple = 8;

}  // namespace trainyard::plan
