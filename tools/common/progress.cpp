// Writes progress to stderr.
#include "tools/common/progress.h"

#include "libtrain/base/error.h"

#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

namespace trainyard::tools {

ProgressMode progress_mode(const std::string& text) {
  if (text == "auto") return ProgressMode::automatic;
  if (text == "always") return ProgressMode::always;
  if (text == "never") return ProgressMode::never;
  throw base::UsageError(fmt::format("--progress {} is not known", text), "use auto, always or never");
}

Progress::Progress(std::string label, ProgressMode mode, double interval_seconds)
    : label_(std::move(label)), mode_(mode), terminal_(isatty(STDERR_FILENO) != 0), interval_(interval_seconds) {}

Progress::~Progress() {
  if (open_line_) std::fputc('\n', stderr);
}

void Progress::show(const std::string& text, Update update) {
  if (mode_ == ProgressMode::never) return;
  const bool live = terminal_;
  const auto now = std::chrono::steady_clock::now();
  const double since = std::chrono::duration<double>(now - last_).count();
  const double pause = live ? 0.1 : mode_ == ProgressMode::always ? 0.5 : interval_;
  if (update == Update::passing && last_.time_since_epoch().count() != 0 && since < pause) return;
  last_ = now;
  if (!live) {
    std::fprintf(stderr, "%s: %s\n", label_.c_str(), text.c_str());
    return;
  }
  winsize size{};
  const int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
  std::fprintf(stderr, "\r\033[K%.*s", width - 1, fmt::format("{}: {}", label_, text).c_str());
  open_line_ = true;
  if (update == Update::last) {
    std::fputc('\n', stderr);
    open_line_ = false;
  }
  std::fflush(stderr);
}

}  // namespace trainyard::tools
