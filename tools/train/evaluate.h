// train --evaluate: the loss of a checkpoint on a shard set, as a table or JSON.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/engine/config.h"
#include "tools/train/launch.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::tools {

// Adds its flags to the program's. Signals keep their own way with an evaluation: nothing has to be saved, so TERM, INT
// and HUP end it (128 + signal for a shell); USR1, which asks a training run to save, is ignored.
class EvaluateFlags {
 public:
  explicit EvaluateFlags(CLI::App& app);
  bool asked() const;
  void check() const;  // UsageError for flags that do not go together

  // Collective; rank 0 prints. UsageError for a flag of training.
  base::ExitCode run(const engine::RunConfig& config, const std::vector<base::Field>& fields, Launch& launch) const;

 private:
  const CLI::App& app_;
  std::string checkpoint_, split_ = "validation";
  std::int64_t sequences_ = 0;
  bool json_ = false;
};

}  // namespace trainyard::tools
