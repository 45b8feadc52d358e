// Reads the host name and the clocks.
#include "libtrain/base/here_and_now.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>
#include <sys/resource.h>
#include <unistd.h>

namespace trainyard::base {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "?";
}

namespace {

std::string to_the_second(std::int64_t seconds_since_1970) {
  const auto seconds = static_cast<std::time_t>(seconds_since_1970);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  return text.data();
}

}  // namespace

std::string utc_now(Precision precision) {
  const std::int64_t milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  const auto text = to_the_second(milliseconds / 1000);
  return precision == Precision::seconds ? fmt::format("{}Z", text)
                                         : fmt::format("{}.{:03}Z", text, milliseconds % 1000);
}

std::string utc_text(std::int64_t seconds_since_1970) { return to_the_second(seconds_since_1970) + "Z"; }

std::optional<double> seconds_of_utc(std::string_view text) {
  constexpr std::string_view form = "0000-00-00T00:00:00";
  if (text.size() < form.size() + 1 || text.back() != 'Z') return {};
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < form.size(); ++i)
    if (form[i] == '0' ? !is_digit(text[i]) : text[i] != form[i]) return {};
  const auto number = [&](std::size_t at, std::size_t digits) {
    int value = 0;
    for (std::size_t i = at; i < at + digits; ++i) value = 10 * value + (text[i] - '0');
    return value;
  };
  const std::chrono::year_month_day day(std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2))));
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!day.ok() || hour > 23 || minute > 59 || second > 60) return {};
  double fraction = 0, unit = 0.1;
  auto rest = text.substr(form.size(), text.size() - form.size() - 1);
  if (!rest.empty() && (rest[0] != '.' || rest.size() == 1)) return {};
  for (std::size_t i = 1; i < rest.size(); ++i, unit /= 10) {
    if (!is_digit(rest[i])) return {};
    fraction += unit * (rest[i] - '0');
  }
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  return static_cast<double>(std::int64_t{days} * 86400 + hour * 3600 + minute * 60 + second) + fraction;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

}  // namespace trainyard::base
