// How watchdogs know that what they hear was said by a rank of their own job: any user of a machine can send to their
// ports.
#pragma once

#include "libtrain/comm/communicator.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::comm {

using WatchdogKey = std::array<unsigned char, 16>;  // random bits, of one start

// Drawn by rank 0 and told to all over MPI. Collective over `control`, a communicator of host memory. EnvironmentError
// where the system has no random bits.
WatchdogKey agree_on_watchdog_key(Communicator& control, tensor::Exec& exec);

// The message with 16 bytes behind it that only the key's holders can make: BLAKE2b, keyed (RFC 7693).
inline constexpr std::size_t seal_bytes = 16;
std::string sealed(const WatchdogKey& key, std::string_view message);
// What was sealed; nothing where the bytes are not of this key.
std::optional<std::string_view> opened(const WatchdogKey& key, std::string_view message);

}  // namespace trainyard::comm
