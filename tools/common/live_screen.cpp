// Uses control sequences of every terminal since the VT100, and waits for signals instead of handling them.
#include "tools/common/live_screen.h"

#include "libtrain/base/descriptor.h"

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <unistd.h>

namespace trainyard::tools {

namespace {

constexpr const char *to_other_screen = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J", *to_first_screen = "\x1b[?25h\x1b[?1049l",
                     *home = "\x1b[H", *clear_line = "\x1b[2K", *clear_below = "\x1b[J";

}  // namespace

bool LiveScreen::possible() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

LiveScreen::LiveScreen() {
  sigemptyset(&watched_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&watched_, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  enter();
}

LiveScreen::~LiveScreen() {
  leave();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool LiveScreen::write(const std::string& bytes) { return base::write_all(STDOUT_FILENO, bytes) == 0; }

void LiveScreen::enter() {
  inside_ = true;
  write(to_other_screen);
}

void LiveScreen::leave() {
  if (!inside_) return;
  inside_ = false;
  write(to_first_screen + last_);
}

bool LiveScreen::show(const std::string& text) {
  last_ = text;
  std::string out = home;
  std::size_t begin = 0;
  for (auto feed = text.find('\n'); feed != std::string::npos; feed = text.find('\n', begin)) {
    if (begin > 0) out += "\r\n";  // none after the last line: it would scroll
    out += clear_line + text.substr(begin, feed - begin);
    begin = feed + 1;
  }
  return write(out + clear_below);
}

void LiveScreen::wait(double seconds) {
  timespec most{};
  most.tv_sec = static_cast<std::time_t>(seconds);
  most.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  const int signal = ::sigtimedwait(&watched_, nullptr, &most);
  if (signal < 0 || signal == SIGWINCH) return;
  leave();
  sigset_t one{};
  sigemptyset(&one);
  sigaddset(&one, signal);
  ::raise(signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);  // the program ends here, or stops until it is continued
  ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
  enter();
}

}  // namespace trainyard::tools
