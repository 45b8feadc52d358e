// Where a watchdog listens, as ranks tell it to each other: "10.0.0.3,172.17.0.1:40213 node17".
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::comm {

struct WatchdogAddress {
  std::vector<sockaddr_in> places;  // every address of its machine: which of them others reach, no machine knows of
                                    // itself (bridges of containers have the same one everywhere)
  std::string host;
};

// Of this machine; loopback alone where it has nothing else.
std::string text_of_watchdog_address(std::uint16_t port);

// Throws EnvironmentError for what text_of_watchdog_address does not make. A watchdog of `own_host` is also looked for
// at the loopback address.
WatchdogAddress parse_watchdog_address(const std::string& text, const std::string& own_host);

}  // namespace trainyard::comm
