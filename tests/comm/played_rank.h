// A rank that a test plays towards watchdogs: a socket that sends what the test wants.
#pragma once

#include "libtrain/comm/watchdog_message.h"
#include "libtrain/comm/watchdog_report.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <utility>

namespace trainyard::comm {

// A socket on which this test plays a rank, and its address.
inline std::pair<int, std::string> socket_of_this_test() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof own;
  EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length), 0);
  return {socket, fmt::format("127.0.0.1:{}", ntohs(own.sin_port))};
}

inline void send_sealed(int socket, const WatchdogKey& key, const Report& report, const std::string& text,
                        const sockaddr_in& to) {
  const auto message = sealed(key, std::string(reinterpret_cast<const char*>(&report), sizeof report) + text);
  sendto(socket, message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

}  // namespace trainyard::comm
