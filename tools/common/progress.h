// Progress of long work: a live line on a terminal, one plain line per interval elsewhere.
#pragma once

#include "libtrain/base/number_text.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace trainyard::tools {

enum class ProgressMode { automatic, always, never };
ProgressMode progress_mode(const std::string& auto_always_never);  // UsageError for anything else

class Progress {
 public:
  // `automatic` shows a live line if stderr is a terminal, and otherwise a plain line each `interval_seconds`.
  Progress(std::string label, ProgressMode mode, double interval_seconds = 10);
  ~Progress();
  // Shows `text`, with at most ten live updates a second. Update::last is always shown.
  enum class Update { passing, last };
  void show(const std::string& text, Update update = Update::passing);

 private:
  std::string label_;
  ProgressMode mode_;
  bool terminal_, open_line_ = false;
  double interval_;
  std::chrono::steady_clock::time_point last_{};
};

using base::duration_text;  // "3 min 20 s"

}  // namespace trainyard::tools
