// How watchdogs know that a message is from a rank of their own job: any user of a machine can send to their ports.
#pragma once

#include "libtrain/comm/communicator.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::comm {

using WatchdogKey = std::array<unsigned char, 16>;  // random bits, drawn anew for each start

// Rank 0 draws the key and broadcasts it, in a job over MPI. Collective over `control`, a communicator of host memory.
// Throws EnvironmentError if the system has no random bits.
WatchdogKey agree_on_watchdog_key(Communicator& control, tensor::Exec& exec);

// The message, followed by a seal of 16 bytes that only holders of the key can make: keyed BLAKE2b (RFC 7693).
inline constexpr std::size_t seal_bytes = 16;
std::string sealed(const WatchdogKey& key, std::string_view message);
// The message without its seal; nothing if the seal was not made with this key.
std::optional<std::string_view> opened(const WatchdogKey& key, std::string_view message);

}  // namespace trainyard::comm
