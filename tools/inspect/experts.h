// What the lines of a run's metrics say of experts: how evenly their gates spread tokens, layer by layer.
#pragma once

#include "tools/common/terminal.h"
#include "tools/inspect/report.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::inspect {

// Numbers of a layer in a step, by the keys of checkpoints/README.md; what a line lacks is not a number.
struct ExpertSample {
  std::int64_t step = 0;
  double fullest = absent, emptiest = absent, dropped_share = absent;
  double balance_loss = absent, z_loss = absent, entropy = absent;
};
struct ExpertLayer {
  std::int64_t layer = 0, experts = 0;  // experts: 0 where no line says how many
  std::vector<ExpertSample> samples;
};
struct ExpertHistory {
  std::vector<ExpertLayer> layers;              // ascending
  std::int64_t steps = 0, first = 0, last = 0;  // lines that say something of experts
};

// InputError where no line does.
ExpertHistory read_expert_history(const std::string& file);

// For each layer a row of steps: the load of its fullest expert, and what was dropped; below, numbers.
std::string experts_text(const ExpertHistory& history, int columns, tools::Glyphs glyphs);
std::string experts_drawing(const ExpertHistory& history, const std::string& name);
nlohmann::json experts_json(const ExpertHistory& history);

// Of a run's folder or a metrics file. Its kind is "experts".
Report experts_report(const std::string& path);

}  // namespace trainyard::inspect
