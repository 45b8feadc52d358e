// LiveScreen: a text that is drawn again and again in the same place of a terminal.
#pragma once

#include <csignal>
#include <string>

namespace trainyard::tools {

// Takes the terminal behind stdout for as long as it lives: its other screen, so that what was there before comes back.
// When it ends, in whatever way but by KILL, the last text is left behind as if it had been printed once. Signals that
// end a program wait until wait() sees them; they then end it as they always do. Ctrl-Z gives the screen back until the
// program goes on.
class LiveScreen {
 public:
  LiveScreen();
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;

  static bool possible();  // stdout is a terminal that can move its cursor

  // Lines as they shall be seen, no longer than the window is wide and not more than it has rows; may hold anything but
  // control characters. False when the terminal is gone.
  bool show(const std::string& text);
  // Until so many seconds have passed or the window has another size.
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
