// Log: plain lines on stderr, made printable (base/text.h). stdout is for a program's output.
#pragma once

#include "libtrain/base/setting_text.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace trainyard::base {

enum class LogLevel { debug, info, warning, error };

// Sets up the one log of the process: its level, and the name before each line ("train", or "train[3]" on rank 3).
// Thread-safe.
void configure_log(const std::string& program, int rank, LogLevel level);
void log_line(LogLevel level, const std::string& line);

template <class... A> void log_info(fmt::format_string<A...> f, A&&... a) {
  log_line(LogLevel::info, text(f, std::forward<A>(a)...));
}
template <class... A> void log_warning(fmt::format_string<A...> f, A&&... a) {
  log_line(LogLevel::warning, text(f, std::forward<A>(a)...));
}
template <class... A> void log_debug(fmt::format_string<A...> f, A&&... a) {
  log_line(LogLevel::debug, text(f, std::forward<A>(a)...));
}
template <class... A> void log_error(fmt::format_string<A...> f, A&&... a) {
  log_line(LogLevel::error, text(f, std::forward<A>(a)...));
}

}  // namespace trainyard::base
