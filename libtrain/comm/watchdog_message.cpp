// Makes and checks seals by libsodium.
#include "libtrain/comm/watchdog_message.h"

#include "libtrain/base/error.h"

#include <sodium.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace trainyard::comm {

namespace {

static_assert(seal_bytes >= crypto_generichash_BYTES_MIN && sizeof(WatchdogKey) >= crypto_generichash_KEYBYTES_MIN);

std::array<unsigned char, seal_bytes> seal_of(const WatchdogKey& key, std::string_view message) {
  std::array<unsigned char, seal_bytes> seal{};
  crypto_generichash(seal.data(), seal.size(), reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                     key.data(), key.size());
  return seal;
}

}  // namespace

WatchdogKey agree_on_watchdog_key(Communicator& control, tensor::Exec& exec) {
  struct {
    WatchdogKey key{};
    std::int32_t failure = 0;
  } drawn;  // sent also after a failure, because the other ranks wait for it
  if (control.rank() == 0 && getrandom(drawn.key.data(), drawn.key.size(), 0) != static_cast<ssize_t>(drawn.key.size()))
    drawn.failure = errno;
  control.broadcast(exec, base::View(&drawn, base::DType::u8, {sizeof drawn}), 0);
  exec.synchronize();
  if (drawn.failure != 0)
    throw base::EnvironmentError(fmt::format("the system has no random bits: {}", std::strerror(drawn.failure)));
  return drawn.key;
}

std::string sealed(const WatchdogKey& key, std::string_view message) {
  const auto seal = seal_of(key, message);
  std::string out(message);
  return out.append(reinterpret_cast<const char*>(seal.data()), seal.size());
}

std::optional<std::string_view> opened(const WatchdogKey& key, std::string_view message) {
  if (message.size() < seal_bytes) return std::nullopt;
  const auto body = message.substr(0, message.size() - seal_bytes);
  const auto seal = seal_of(key, body);
  if (sodium_memcmp(seal.data(), message.data() + body.size(), seal.size()) != 0) return std::nullopt;
  return body;
}

}  // namespace trainyard::comm
