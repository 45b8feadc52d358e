// Errors: one exception type that carries an exit code, a sentence, and what to try.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace trainyard::base {

// The exit codes of every program. They are part of the command-line contract.
enum class ExitCode : int {
  done = 0,
  unexpected = 1,
  usage = 2,
  input_refused = 3,
  environment = 4,
  check_failed = 5,
  peer_hung = 6,
  requeue = 75,
};

// what() says what failed, on what, and what was expected and found. hint() says what to try, and may be empty.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message, std::string hint = {})
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}
  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

struct UsageError : Error {
  explicit UsageError(const std::string& m, std::string hint = {}) : Error(ExitCode::usage, m, std::move(hint)) {}
};
struct InputError : Error {
  explicit InputError(const std::string& m, std::string hint = {})
      : Error(ExitCode::input_refused, m, std::move(hint)) {}
};
struct EnvironmentError : Error {
  explicit EnvironmentError(const std::string& m, std::string hint = {})
      : Error(ExitCode::environment, m, std::move(hint)) {}
};
struct CheckError : Error {
  explicit CheckError(const std::string& m, std::string hint = {})
      : Error(ExitCode::check_failed, m, std::move(hint)) {}
};
struct PeerError : Error {
  explicit PeerError(const std::string& m, std::string hint = {}) : Error(ExitCode::peer_hung, m, std::move(hint)) {}
};
// This build does not have a backend or a combination. Exit code 4.
struct Unsupported : Error {
  explicit Unsupported(const std::string& m, std::string hint = {})
      : Error(ExitCode::environment, m, std::move(hint)) {}
};

// What a program reports of an exception, and its exit code. An Error has its own code. Running out of memory, and
// other refusals of the system, have the code `environment`.
struct ErrorText {
  ExitCode code = ExitCode::unexpected;
  std::string message, hint;
};
ErrorText error_text_of(const std::exception& error);

// For internal invariants only, never for bad input. The message prints the values.
[[noreturn]] void invariant_failed(const char* file, int line, const char* condition, const std::string& values);

}  // namespace trainyard::base

// TRAINYARD_ASSERT(a == b, "a {} b {}", a, b): checked in every build; throws std::logic_error.
#define TRAINYARD_ASSERT(condition, ...)                                                                             \
  do {                                                                                                               \
    if (!(condition)) ::trainyard::base::invariant_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
