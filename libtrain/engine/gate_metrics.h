// GateMetrics: what the gates of a model with experts did in a step, and who notices that one of them has collapsed.
#pragma once

#include "libtrain/plan/model_config.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::engine {

// Of one layer, over all training micro-batches of a step. A load is the choices of an expert over those that each
// would have if all had as many: 1 is even, the number of experts is all. Losses, with coefficient 1, and the gate's
// entropy, in nats, are means over micro-batches, weighted by their target tokens.
struct LayerGate {
  std::int64_t layer = 0, experts = 0;  // of the model's layers, from 0
  std::int64_t kept = 0, dropped = 0;   // choices that got a place, and that got none
  double dropped_share = 0;             // of all choices
  double fullest = 0, emptiest = 0;     // loads, before dropping
  std::int64_t fullest_expert = 0;      // of several the first
  double balance_loss = 0, z_loss = 0, entropy = 0;
};
struct GateMetrics {
  std::vector<LayerGate> layers;                          // those that have experts, ascending
  double dropped_share = 0, fullest = 0;                  // of the choices of all layers; the largest of any
  double weighted_balance_loss = 0, weighted_z_loss = 0;  // with the model's coefficients, summed over layers
};

// The records of a step's gates: a row for each layer that has experts, as kernels/gate_record fills it. No rows: the
// model has no experts.
struct GateRecordShape {
  std::int64_t rows = 0, width = 0;
  std::int64_t count() const { return rows * width; }
};
GateRecordShape gate_record_shape(const plan::ModelConfig& model);

// `records` are the sums over all micro-batches and ranks.
GateMetrics gate_metrics(const plan::ModelConfig& model, std::span<const std::int64_t> records);

// Notices a gate that prefers one expert in `steps` steps that follow one another: more than half of the tokens, where
// a token goes to one of at least four experts; more than nine tenths of them, where a token goes to several.
class GateWatch {
 public:
  static constexpr int steps = 10;
  explicit GateWatch(const plan::ModelConfig& model) : model_(model) {}
  // A sentence for each layer of which this is seen now; no layer has a second one.
  std::vector<std::string> look(const GateMetrics& metrics);

 private:
  struct Row {         // of steps that follow one another
    int steps = 0;     // -1: it was said
    double least = 1;  // share of the tokens that the fullest expert got
  };
  double share_of_tokens(const LayerGate& gate) const;  // that went to the fullest expert
  bool prefers_one(const LayerGate& gate) const;
  std::string sentence(const LayerGate& gate, double least) const;

  plan::ModelConfig model_;
  std::vector<Row> rows_;  // by the places of layers in the metrics
};

}  // namespace trainyard::engine
