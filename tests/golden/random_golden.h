// Values of tests/golden/random_golden.py, an independent implementation; written by it.
#pragma once

#include <cstdint>

namespace trainyard::golden {

struct Site {
  const char *purpose, *site;
  std::uint64_t hash;
};
inline constexpr Site sites[] = {
    {"init", "layers.07.attention.q.weight", 0x661b7d0c13654c8full},
    {"init", "", 0x339e24daf7ced6ceull},
    {"dropout", "layers.00.ffn", 0x976dddd6bbc73b52ull},
    {"data", "order", 0xa486c377016823beull},
};

struct Words {
  std::uint64_t seed, site, index;
  std::uint32_t words[4];
};
inline constexpr Words words[] = {
    {0x123456789abcdefull, 0x661b7d0c13654c8full, 0ull, {0x3b579d25u, 0x1827d0ddu, 0x849307f4u, 0x002e69a8u}},
    {0x123456789abcdf0ull, 0x339e24daf7ced6ceull, 1ull, {0x71871121u, 0xa2b7036du, 0xed867389u, 0xa7873005u}},
    {0x123456789abcdf1ull, 0x976dddd6bbc73b52ull, 2ull, {0xbfb10d27u, 0xaf267f4fu, 0x2d64d9edu, 0x53be2809u}},
    {0x123456789abcdf2ull, 0xa486c377016823beull, 3ull, {0x4185f073u, 0xa31d40cbu, 0x2a26d3a3u, 0xe1627286u}},
    {0x123456789abcdf3ull, 0x661b7d0c13654c8full, 1000001ull, {0x0e3aa1f3u, 0x6d5bde7bu, 0x0cd81b8fu, 0x105c9d8cu}},
    {0x123456789abcdf4ull, 0x339e24daf7ced6ceull, 8589934592ull, {0x93743fb3u, 0x2ba9d298u, 0x1dd10479u, 0x74ff5048u}},
    {0x123456789abcdf5ull, 0x976dddd6bbc73b52ull, 8589934593ull, {0xee2feea2u, 0xe216d1a5u, 0xac1aa60eu, 0x5e7395f0u}},
};

inline constexpr const char* normal_name = "layers.07.attention.q.weight";
inline constexpr std::uint64_t normal_seed = 0x123456789abcdefull;
struct Normal {
  std::uint64_t index;
  double value;
};
inline constexpr Normal normals[] = {
    {0ull, -0x1.717e798545613p-1},          {1ull, -0x1.4d450ea5d7b8fp-4},      {2ull, -0x1.ce3b831ab7447p-1},
    {3ull, 0x1.1b72638c429cdp+0},           {1000001ull, 0x1.76b1484b03838p-3}, {8589934592ull, -0x1.1a629c268a35fp-1},
    {8589934593ull, -0x1.d175dec018377p-1}, {100ull, -0x1.781c32147712ep+1},    {101ull, -0x1.3987503824400p-4},
    {102ull, 0x1.4a8c7c4e8bc30p+0},         {103ull, 0x1.e1e48a884da32p-1},     {104ull, -0x1.875f6a07833dbp-1},
    {105ull, -0x1.be15f85ce38bbp-2},        {106ull, 0x1.cd1fb4698833fp-4},     {107ull, -0x1.227b69fd1a345p-2},
    {108ull, -0x1.bd9b97f53ec05p-1},        {109ull, 0x1.7f0a22780ddd5p-1},
};

struct Order {
  std::uint64_t n, key, epoch, first[8];
};
inline constexpr Order orders[] = {
    {1ull, 5ull, 0ull, {0ull}},
    {2ull, 5ull, 0ull, {0ull, 1ull}},
    {10ull, 5ull, 3ull, {2ull, 9ull, 7ull, 0ull, 6ull, 8ull, 1ull, 4ull}},
    {1000ull, 9223372036854775809ull, 7ull, {669ull, 86ull, 484ull, 235ull, 690ull, 565ull, 633ull, 297ull}},
    {123456789012ull,
     42ull,
     1ull,
     {23344264334ull, 52532101253ull, 102067774421ull, 12706811476ull, 48886556923ull, 4041832994ull, 14541281093ull,
      11610133237ull}},
};

// Element i is (0x9E3779B97F4A7C15 i + 11) modulo 256^size, i in [0, 100), first index 1000.
struct Fingerprint {
  int size;
  std::uint64_t value;
};
inline constexpr Fingerprint fingerprints[] = {
    {1, 0xb3c3bab9c8491039ull},
    {2, 0x2ae11ff89b635d82ull},
    {4, 0xfb7b9b1ab3940c73ull},
    {8, 0x9ac4ef5a98c6f26full},
};

}  // namespace trainyard::golden
