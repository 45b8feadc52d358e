// The log, with spdlog's stderr sink.
#include "libtrain/base/log.h"

#include "libtrain/base/text.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace trainyard::base {

namespace {

spdlog::logger& logger() {
  static auto instance = [] {
    auto l = std::make_shared<spdlog::logger>("trainyard", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l->set_pattern("%v");
    l->set_level(spdlog::level::info);
    return l;
  }();
  return *instance;
}

spdlog::level::level_enum native(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void configure_log(const std::string& program, int rank, LogLevel level) {
  logger().set_pattern(rank > 0 ? fmt::format("{}[{}]: %v", program, rank) : fmt::format("{}: %v", program));
  logger().set_level(native(level));
}

void log_line(LogLevel level, const std::string& line) {
  const char* prefix = level == LogLevel::warning ? "warning: " : level == LogLevel::error ? "error: " : "";
  logger().log(native(level), "{}{}", prefix, printable(line));
}

}  // namespace trainyard::base
