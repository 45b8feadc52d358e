# Writes random_golden.h: Philox, site hashes, normals, the data order and fingerprints from an implementation in plain Python integers.
# Run as: python3 tests/golden/random_golden.py > tests/golden/random_golden.h
import math

M64 = 2**64 - 1


def philox(key, low, high):
    c = [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def site_hash(purpose, site):
    h = 0xCBF29CE484222325
    for byte in purpose.encode() + b"\0" + site.encode():
        h = (h ^ byte) * 0x100000001B3 & M64
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & M64
    h = (h ^ h >> 27) * 0x94D049BB133111EB & M64
    return h ^ h >> 31


def normal(seed, site, index):
    w = philox(seed, index // 2, site)
    u1 = 1.0 - ((w[0] << 32 | w[1]) >> 11) * 2.0**-53
    u2 = ((w[2] << 32 | w[3]) >> 11) * 2.0**-53
    radius = math.sqrt(-2.0 * math.log(u1))
    return radius * (math.sin if index % 2 else math.cos)(2.0 * math.pi * u2)


def permuted(n, key, epoch, index):
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    site = site_hash("data", "order")
    while True:
        left, right = index >> half, index & mask
        for r in range(6):
            w = philox(key, right | r << 56, site ^ epoch)
            left, right = right, left ^ ((w[0] << 32 | w[1]) & mask)
        index = left << half | right
        if index < n:
            return index


def mix(index, bits):
    h = index * 0x9E3779B97F4A7C15 & M64 ^ (bits + 0xD1B54A32D192ED03 & M64)
    for _ in range(2):
        h = (h ^ h >> 32) * 0xD6E8FEB86659FD93 & M64
    return h ^ h >> 32


SITES = [("init", "layers.07.attention.q.weight"), ("init", ""), ("dropout", "layers.00.ffn"), ("data", "order")]
NAME, SEED = "layers.07.attention.q.weight", 0x0123456789ABCDEF
INDICES = [0, 1, 2, 3, 1000001, 2**33, 2**33 + 1]
ORDERS = [(1, 5, 0), (2, 5, 0), (10, 5, 3), (1000, 2**63 + 1, 7), (123456789012, 42, 1)]


def main():
    print("// Values of tests/golden/random_golden.py, an independent implementation; written by it.")
    print("#pragma once\n\n#include <cstdint>\n\nnamespace trainyard::golden {\n")
    print("struct Site { const char *purpose, *site; std::uint64_t hash; };")
    print("inline constexpr Site sites[] = {")
    for purpose, site in SITES:
        print(f'    {{"{purpose}", "{site}", 0x{site_hash(purpose, site):016x}ull}},')
    print("};\n\nstruct Words { std::uint64_t seed, site, index; std::uint32_t words[4]; };")
    print("inline constexpr Words words[] = {")
    for i, index in enumerate(INDICES):
        site = site_hash(*SITES[i % len(SITES)])
        print(f"    {{0x{SEED + i:x}ull, 0x{site:016x}ull, {index}ull, {{" + ", ".join(f"0x{w:08x}u" for w in philox(SEED + i, index, site)) + "}},")
    print(f'}};\n\ninline constexpr const char* normal_name = "{NAME}";\ninline constexpr std::uint64_t normal_seed = 0x{SEED:x}ull;')
    print("struct Normal { std::uint64_t index; double value; };\ninline constexpr Normal normals[] = {")
    for index in INDICES + list(range(100, 110)):
        print(f"    {{{index}ull, {normal(SEED, site_hash('init', NAME), index).hex()}}},")
    print("};\n\nstruct Order { std::uint64_t n, key, epoch, first[8]; };\ninline constexpr Order orders[] = {")
    for n, key, epoch in ORDERS:
        print(f"    {{{n}ull, {key}ull, {epoch}ull, {{" + ", ".join(f"{permuted(n, key, epoch, i)}ull" for i in range(min(n, 8))) + "}},")
    total = {size: sum(mix(1000 + i, (i * 0x9E3779B97F4A7C15 + 11) % 256 ** size) for i in range(100)) & M64 for size in (1, 2, 4, 8)}
    print("};\n\n// Element i is (0x9E3779B97F4A7C15 i + 11) modulo 256^size, i in [0, 100), first index 1000.")
    print("struct Fingerprint { int size; std::uint64_t value; };\ninline constexpr Fingerprint fingerprints[] = {")
    for size, value in total.items():
        print(f"    {{{size}, 0x{value:016x}ull}},")
    print("};\n\n}  // namespace trainyard::golden")


main()
