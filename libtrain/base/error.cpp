// Messages and exit codes of exceptions, and the failing end of TRAINYARD_ASSERT.
#include "libtrain/base/error.h"

#include <filesystem>
#include <new>
#include <system_error>

namespace trainyard::base {

ErrorText error_text_of(const std::exception& error) {
  const auto is = [&]<class E>() { return dynamic_cast<const E*>(&error) != nullptr; };
  if (const auto* known = dynamic_cast<const Error*>(&error)) return {known->code(), known->what(), known->hint()};
  if (is.operator()<std::bad_alloc>())
    return {ExitCode::environment, "out of memory",
            "fewer threads, smaller sizes, fewer ranks on a node, or more memory (ulimit -v, --mem of Slurm)"};
  const std::string limits = "look at the limits of this process (ulimit -a)";
  if (is.operator()<std::filesystem::filesystem_error>())
    return {ExitCode::environment, fmt::format("the system refuses: {}", error.what()),
            "may it be read and written? Or " + limits};
  if (is.operator()<std::system_error>())
    return {ExitCode::environment, fmt::format("the system refuses: {}", error.what()), limits};
  return {ExitCode::unexpected, fmt::format("unexpected: {}", error.what()),
          "please report this line with the command that led to it"};
}

void invariant_failed(const char* file, int line, const char* condition, const std::string& values) {
  throw std::logic_error(fmt::format("{}:{}: internal check '{}' failed: {}", file, line, condition, values));
}

}  // namespace trainyard::base
