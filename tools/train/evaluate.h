// train --evaluate: the loss of a checkpoint on a shard set, as a table or JSON, and scores of targets that it writes.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/engine/config.h"
#include "tools/train/launch.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::tools {

// Adds the flags of an evaluation to the program. In an evaluation signals have their default effect, because nothing
// has to be saved: TERM, INT and HUP end it (128 + signal for a shell). USR1, which asks a training run to save, is
// ignored.
class EvaluateFlags {
 public:
  explicit EvaluateFlags(CLI::App& app);
  bool asked() const;
  void check() const;  // UsageError for flags that cannot be combined

  // Collective; rank 0 prints. UsageError if a flag of training is given.
  base::ExitCode run(const engine::RunConfig& config, const std::vector<base::Field>& fields, Launch& launch) const;

 private:
  const CLI::App& app_;
  std::string checkpoint_, split_ = "validation";
  std::int64_t sequences_ = 0;
  std::vector<std::string> metrics_;
  bool json_ = false, stream_weights_ = false;
};

}  // namespace trainyard::tools
