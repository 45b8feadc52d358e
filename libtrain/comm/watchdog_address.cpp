// Lists the addresses of all interfaces, as text, and reads such a text.
#include "libtrain/comm/watchdog_address.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <arpa/inet.h>
#include <cstdlib>
#include <ifaddrs.h>
#include <net/if.h>
#include <sstream>
#include <string_view>

namespace trainyard::comm {

std::string text_of_watchdog_address(std::uint16_t port) {
  std::vector<std::string> places, of_loopback;  // hosts that do their own routing have an address on loopback
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (auto* i = list; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP)) continue;
      char text[INET_ADDRSTRLEN] = {};
      inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
      auto& list_of = (i->ifa_flags & IFF_LOOPBACK) != 0 ? of_loopback : places;
      if (std::string_view(text).starts_with("127.") ||
          std::find(list_of.begin(), list_of.end(), text) != list_of.end())
        continue;
      list_of.emplace_back(text);
    }
    freeifaddrs(list);
  }
  places.insert(places.end(), of_loopback.begin(), of_loopback.end());
  if (places.empty()) places.emplace_back("127.0.0.1");
  return fmt::format("{}:{} {}", fmt::join(places, ","), port, base::host_name());
}

WatchdogAddress parse_watchdog_address(const std::string& text, const std::string& own_host) {
  WatchdogAddress a;
  const auto space = text.find(' '), colon = text.substr(0, space).rfind(':');
  if (space != std::string::npos) a.host = text.substr(space + 1);
  std::istringstream places(text.substr(0, colon) + (!a.host.empty() && a.host == own_host ? ",127.0.0.1" : ""));
  for (std::string place; std::getline(places, place, ',');) {
    sockaddr_in s{};
    s.sin_family = AF_INET;
    if (colon == std::string::npos || inet_pton(AF_INET, place.c_str(), &s.sin_addr) != 1)
      throw base::EnvironmentError(fmt::format("\"{}\" is no address of a watchdog", text));
    s.sin_port = htons(static_cast<std::uint16_t>(std::atoi(text.c_str() + colon + 1)));
    a.places.push_back(s);
  }
  return a;
}

}  // namespace trainyard::comm
