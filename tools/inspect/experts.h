// The experts in a run's metrics: how evenly their gates spread tokens, layer by layer.
#pragma once

#include "tools/common/terminal.h"
#include "tools/inspect/report.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::inspect {

// The numbers of a layer in a step; their names are keys of checkpoints/README.md. A number that a line lacks is NaN.
struct ExpertSample {
  std::int64_t step = 0;
  double fullest = absent, emptiest = absent, dropped_share = absent;
  double balance_loss = absent, z_loss = absent, entropy = absent;
};
struct ExpertLayer {
  std::int64_t layer = 0, experts = 0;  // experts: 0 if no line has their number
  std::vector<ExpertSample> samples;
};
struct ExpertHistory {
  std::vector<ExpertLayer> layers;              // ascending by layer
  std::int64_t steps = 0, first = 0, last = 0;  // steps: lines with experts' numbers; first, last: their steps
};

// InputError if no line has experts' numbers.
ExpertHistory read_expert_history(const std::string& file);

// For each layer a row of steps with the load of its most loaded expert, and a row with the share of dropped choices;
// numbers below.
std::string experts_text(const ExpertHistory& history, int columns, tools::Glyphs glyphs);
std::string experts_drawing(const ExpertHistory& history, const std::string& name);
nlohmann::json experts_json(const ExpertHistory& history);

// The report on a run's folder or a metrics file; its kind is "experts".
Report experts_report(const std::string& path);

}  // namespace trainyard::inspect
