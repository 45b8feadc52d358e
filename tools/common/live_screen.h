// LiveScreen: a text that is redrawn in the same place of a terminal.
#pragma once

#include <csignal>
#include <string>

namespace trainyard::tools {

// Takes over the terminal behind stdout for as long as it lives. It uses the terminal's other screen, so the earlier
// content comes back afterwards. However it ends, except by KILL, the last text remains as if it had been printed once.
// Signals that end a program wait until wait() sees them; then they end it as usual. Ctrl-Z gives the screen back until
// the program continues.
class LiveScreen {
 public:
  LiveScreen();
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;

  static bool possible();  // stdout is a terminal that can move its cursor

  // Shows lines, no longer than the window is wide and no more than it has rows. They may hold anything but control
  // characters. Returns false when the terminal is gone.
  bool show(const std::string& text);
  // Waits until so many seconds have passed or the window changes its size.
  void wait(double seconds);

 private:
  void enter();
  void leave();
  bool write(const std::string& bytes);

  std::string last_;
  bool inside_ = false;
  sigset_t watched_{}, before_{};
};

}  // namespace trainyard::tools
