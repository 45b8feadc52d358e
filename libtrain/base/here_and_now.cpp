// The host and the clocks.
#include "libtrain/base/here_and_now.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>
#include <unistd.h>

namespace trainyard::base {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "?";
}

std::string utc_now(Precision precision) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  return precision == Precision::seconds ? fmt::format("{}Z", text.data())
                                         : fmt::format("{}.{:03}Z", text.data(), milliseconds % 1000);
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace trainyard::base
