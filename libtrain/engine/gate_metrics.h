// GateMetrics: what the gates of a model with experts did in a step. GateWatch: notices a gate that has collapsed.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::engine {

// One layer, over all training micro-batches of a step. The load of an expert is its number of choices divided by the
// even share: 1 is even, and the number of experts means that one expert got all choices. Losses (with coefficient 1)
// and the gate's entropy (in nats) are means over micro-batches, weighted by their target tokens.
struct LayerGate {
  std::int64_t layer = 0, experts = 0;  // index among the model's layers, from 0
  std::int64_t kept = 0, dropped = 0;   // choices that got a place, and choices that got none
  double dropped_share = 0;             // of all choices
  double fullest = 0, emptiest = 0;     // loads, before dropping
  std::int64_t fullest_expert = 0;      // the first of equals
  double balance_loss = 0, z_loss = 0, entropy = 0;
  std::vector<std::int64_t> choices = {};  // of each expert, before dropping
};
struct GateMetrics {
  std::vector<LayerGate> layers;                          // layers with experts, ascending
  double dropped_share = 0, fullest = 0;                  // of the choices of all layers; largest load of any layer
  double weighted_balance_loss = 0, weighted_z_loss = 0;  // with the model's coefficients, summed over layers
};

// Shape of the records of a step's gates: one row for each layer with experts, as kernels/gate_record fills it. No
// rows: the model has no experts.
struct GateRecordShape {
  std::int64_t rows = 0, width = 0;
  std::int64_t count() const { return rows * width; }
};
GateRecordShape gate_record_shape(const plan::ModelConfig& model);

// `records` are the sums over all micro-batches and ranks.
GateMetrics gate_metrics(const plan::ModelConfig& model, std::span<const std::int64_t> records);

// Notices a gate that prefers one expert in `steps` consecutive steps. If a token goes to one of at least four experts,
// that means more than half of the tokens. If a token goes to several experts, it means more than nine tenths of the
// tokens.
class GateWatch {
 public:
  static constexpr int steps = 10;
  explicit GateWatch(const plan::ModelConfig& model) : model_(model) {}
  // Returns a sentence for each layer in which this is newly seen, and for each reported layer in which it was not seen
  // in the last `steps` steps. The latter may be reported again.
  std::vector<std::string> look(const GateMetrics& metrics);

 private:
  struct Row {
    bool reported = false;
    int steps = 0;     // consecutive ones that prefer one expert; of a reported layer, that do not
    double least = 1;  // smallest share of the tokens that the fullest expert got in them
  };
  double share_of_tokens(const LayerGate& gate) const;  // share that went to the fullest expert
  bool prefers_one(const LayerGate& gate) const;
  std::string sentence(const LayerGate& gate, double least) const;
  std::string recovered(const LayerGate& gate) const;

  plan::ModelConfig model_;
  std::vector<Row> rows_;  // by the index of the layer in the metrics
};

}  // namespace trainyard::engine
