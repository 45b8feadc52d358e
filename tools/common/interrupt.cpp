// Handlers that turn signals into a flag, and the progress line that checks it.
#include "tools/common/interrupt.h"

#include "libtrain/base/here_and_now.h"
#include "libtrain/base/number_text.h"
#include "tools/common/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unistd.h>

namespace trainyard::tools {

namespace {
volatile std::sig_atomic_t stop_signal = 0;
}

void watch_signals(Reads reads) {
  struct sigaction action {};
  if (reads == Reads::of_files) {
    action.sa_handler = [](int number) { stop_signal = number; };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  } else {
    // Without SA_RESTART, a waiting read returns. The alarm repeats, so a read that begins to wait right after the
    // signal returns, too.
    action.sa_handler = [](int number) {
      if (number != SIGALRM) stop_signal = number;
      ::alarm(1);
    };
    sigaction(SIGALRM, &action, nullptr);
  }
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

void require_not_interrupted() {
  if (stop_signal != 0) throw Interrupted();
}

void end_by_signal(const std::string& program, const std::string& what) {
  std::fprintf(stderr, "%s: stopped by SIG%s; %s\n", program.c_str(), sigabbrev_np(stop_signal), what.c_str());
  std::signal(stop_signal, SIG_DFL);
  std::raise(stop_signal);
  std::abort();
}

std::function<void(std::int64_t, std::int64_t)> progress_watch(const char* label, const std::string& mode,
                                                               Progressing unit) {
  return [line = std::make_shared<Progress>(label, progress_mode(mode)), unit, start = base::steady_seconds()](
             std::int64_t done, std::int64_t total) {
    require_not_interrupted();
    const double seconds = base::steady_seconds() - start, rate = static_cast<double>(done) / std::max(seconds, 1e-9);
    if (seconds < 0.5) return;
    const auto left = duration_text(static_cast<double>(total - done) / rate);
    line->show(unit == Progressing::bytes
                   ? fmt::format("{} of {}, {}, {} left", base::size_text(done), base::size_text(total),
                                 base::rate_text(rate, "B/s"), left)
                   : fmt::format("{} of {} elements, {} left", base::count_text(done), base::count_text(total), left),
               done == total ? Progress::Update::last : Progress::Update::passing);
  };
}

}  // namespace trainyard::tools
