// Philox 4x32-10 (Salmon et al. 2011) for CPU and GPU kernels; it gives the words of base::random_words. In an unnamed
// namespace, so that each compiled variant has its own copy.
#pragma once

#include "kernels/mat.h"

#include <cstdint>

namespace trainyard::kernels {
namespace {

struct Words {
  std::uint32_t w[4];
};

TRAINYARD_ANYWHERE inline Words philox_words(std::uint64_t key, std::uint64_t site, std::uint64_t index) {
  std::uint32_t c0 = static_cast<std::uint32_t>(index), c1 = static_cast<std::uint32_t>(index >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(site), c3 = static_cast<std::uint32_t>(site >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace
}  // namespace trainyard::kernels
