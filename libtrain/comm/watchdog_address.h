// Where a watchdog listens, as ranks send it to each other: "10.0.0.3,172.17.0.1:40213 node17".
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::comm {

struct WatchdogAddress {
  // Every address of its machine. A machine does not know which of them others reach: bridges of containers have the
  // same address everywhere.
  std::vector<sockaddr_in> places;
  std::string host;
};

// The text for this machine; it names loopback alone if there is no other address.
std::string text_of_watchdog_address(std::uint16_t port);

// Throws EnvironmentError for a text that text_of_watchdog_address does not make. A watchdog of `own_host` is also
// looked for at the loopback address.
WatchdogAddress parse_watchdog_address(const std::string& text, const std::string& own_host);

}  // namespace trainyard::comm
