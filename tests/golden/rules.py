"""The rules of the project that golden models need, a second time, in numpy: numbers that are keyed, tokens that are hidden, blocks of attention.

Written from what libtrain/design/attention.md, libtrain/design/random-numbers-and-data-order.md, libtrain/data/masking.h and libtrain/plan/spec/attention_config.h say; nothing is shared with the C++ code.
"""
import numpy as np

MASK32 = np.uint64(0xFFFFFFFF)


def philox(key, low, high):
    """Salmon et al. 2011, vectorised over `low` (uint64 array)."""
    c = [low & MASK32, low >> np.uint64(32),
         np.full_like(low, high & 0xFFFFFFFF), np.full_like(low, high >> 32)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c[0]
        p1 = np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & MASK32,
             (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & MASK32]
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def site_hash(purpose, site):
    h = 0xCBF29CE484222325
    for byte in purpose.encode() + b"\0" + site.encode():
        h = ((h ^ byte) * 0x100000001B3) % 2**64
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) % 2**64
    return h ^ (h >> 31)


def uniform(a, b):
    return (((a << np.uint64(32)) | b) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def hide(tokens, seed, sample, mask, end=0, percent=15):
    """What a masked model sees of a sequence of training, and the weights of its targets, which are the tokens. Ids of data are below `mask`, its own."""
    w = philox((seed + sample * 0x9E3779B97F4A7C15) % 2**64, np.arange(len(tokens), dtype=np.uint64), site_hash("mask", "training"))
    there = np.flatnonzero(tokens != end)
    chosen = there[w[0][there] < percent * 2**32 // 100]
    if len(chosen) == 0:
        chosen = there[np.argmin(w[0][there])][None]
    seen, weights = tokens.copy(), np.zeros(len(tokens), np.int64)
    weights[chosen] = 1
    for t in chosen:
        if w[1][t] < 8 * 2**32 // 10:
            seen[t] = mask
        elif w[1][t] < 9 * 2**32 // 10:
            seen[t] = int(w[2][t]) * mask // 2**32
    return seen, weights


def ranges(text, n):
    """The blocks of "0, 5, 8:12"."""
    ends = ([int(x) for x in part.split(":")] for part in text.split(","))
    return [j for e in ends for j in range(e[0], min(e[-1] + (len(e) == 1), n))]


def windows(sizes, n):
    """The windows that follow one another, of which the last size repeats."""
    out, begin = [], 0
    while begin < n:
        size = sizes[min(len(out), len(sizes) - 1)]
        out.append(range(begin, min(begin + size, n)))
        begin += size
    return out


def row(a, causal, layout, layer, head, i, n):
    """The blocks of keys that block i of the queries of a head computes."""
    around = {j for j in range(n) if abs(i - j) <= a["window"] // 2}
    own = next(set(w) for w in windows(a.get("local", [4]), n) if i in w)
    everything, drawn = set(range(n)), 0
    if layout == "sliding":
        there = {j for j in range(n) if i - a["window"] < j <= i} if causal else around
    elif layout in ("longformer", "bigbird"):
        wide = ranges(a.get("global_blocks", "0"), n) if layout == "longformer" else range(a.get("global", 1))
        there = everything if i in wide else around | set(wide)
        drawn = a.get("random", 1) if layout == "bigbird" else 0
    elif layout == "variable":
        there, drawn = own | set(ranges(a.get("global_blocks", "0"), n)), a.get("random", 0)
    else:
        assert layout == "fixed"
        back = 1 + head % a.get("patterns", 1)   # one global block of each window, from its end; a window that is cut short has its last one at least
        there = own | {min(w[0] + a["local"][0] - back, n - 1) for w in windows(a["local"], n)}
    if causal:
        there = {j for j in there if j <= i}
    rest = [j for j in range(i + 1 if causal else n) if j not in there]
    for k in range(min(drawn, len(rest))):
        w = philox(a["seed"], np.array([i * 2**32 + k], np.uint64), site_hash("attention layout", "%d %d" % (layer, head)))
        chosen = k + int(uniform(w[0], w[1])[0] * (len(rest) - k))
        rest[k], rest[chosen] = rest[chosen], rest[k]
        there.add(rest[k])
    return there


def blocks(a, causal, layer, heads, length):
    """[heads, T, T] of bool: what the blocks of a layer compute. Heads differ where they have lists of their own ("per_head")."""
    layout, n = a["layout"][layer % len(a["layout"])], -(-length // a["block"])
    if layout == "dense":
        return np.ones((heads, length, length), bool)
    out = np.zeros((heads, n, n), bool)
    for head in range(heads):
        for i in range(n):
            out[head, i, sorted(row(a, causal, layout, layer, head if a.get("per_head") else 0, i, n))] = True
    return out.repeat(a["block"], 1).repeat(a["block"], 2)[:, :length, :length]
