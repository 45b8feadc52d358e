// Parsing and the last catch.
#include "tools/common/program.h"

#include "libtrain/base/log.h"
#include "libtrain/base/text.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <new>
#include <unistd.h>

namespace trainyard::tools {

void describe_program(CLI::App& app, const std::string& sentence, const std::string& examples, const std::string& see_also) {
  app.description(sentence);
  app.footer("Examples:\n" + examples + "\nSee also: " + see_also);
  app.set_version_flag("--version", "trainyard 0.1.0");
  app.get_formatter()->column_width(34);
}

bool print(std::string_view given) {
  const auto shown = isatty(STDOUT_FILENO) != 0 ? base::printable(given) : std::string();
  const auto text = shown.empty() ? given : std::string_view(shown);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return true;
  if (errno != EPIPE) throw base::EnvironmentError(fmt::format("standard output cannot be written: {}", std::strerror(errno)), "make room where it goes");
  return false;
}

int report(const std::string& program, const std::exception& error) {
  std::fflush(stdout);
  if (const auto* known = dynamic_cast<const base::Error*>(&error)) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), base::printable(known->what()).c_str());
    if (!known->hint().empty()) std::fprintf(stderr, "  try: %s\n", base::printable(known->hint()).c_str());
    return static_cast<int>(known->code());
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    std::fprintf(stderr, "%s: out of memory\n  try: fewer threads, a smaller batch, or more ranks\n", program.c_str());
    return static_cast<int>(base::ExitCode::environment);
  }
  std::fprintf(stderr, "%s: unexpected: %s\n  try: please report this line with the command that led to it\n", program.c_str(), base::printable(error.what()).c_str());
  return static_cast<int>(base::ExitCode::unexpected);
}

int guarded(CLI::App& app, int argc, char** argv, const std::function<base::ExitCode()>& body) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);   // a limit on file sizes is a full disk like any other
  base::configure_log(app.get_name(), 0, base::LogLevel::info);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "%s: %s\n  try: %s --help\n", app.get_name().c_str(), base::printable(e.what()).c_str(), app.get_name().c_str());
    return static_cast<int>(base::ExitCode::usage);
  }
  try {
    const auto code = body();
    std::cout.flush();
    std::fflush(stdout);
    return static_cast<int>(code);
  } catch (const std::exception& e) {
    return report(app.get_name(), e);
  }
}

}  // namespace trainyard::tools
