"""Writes denoising.json: span corruption and text infilling by a second implementation, for tests/data/denoising_test.cpp.

Written from the comments of libtrain/data/span_corruption.h, text_infilling.h and keyed_draws.h; nothing is shared with the C++ code. Counts are exact fractions, draws are Python's whole numbers.
usage: python3 tests/golden/denoising.py
"""
import json
import math
import pathlib
from fractions import Fraction

import numpy as np

from rules import philox, site_hash


class Draws:
    def __init__(self, seed, sample, evaluation, purpose, site):
        self.key = (seed + sample * 0x9E3779B97F4A7C15) % 2**64
        self.site = site_hash(purpose, ("evaluation " if evaluation else "training ") + site)

    def bits(self, i):
        w = philox(self.key, np.array([i], np.uint64), self.site)
        return int(w[0][0]) * 2**32 + int(w[1][0])

    def below(self, i, n):
        return self.bits(i) * n // 2**64

    def choose(self, n, count):
        out = []
        for i in range(n):
            if self.below(i, n - i) < count - len(out):
                out.append(i)
        return out


def span_counts(rate, mean, n):
    noise = min(max(round(rate * n), 1), n - 1)      # Python rounds halves of fractions to the even number
    spans = min(max(1, round(noise / mean)), n - noise)
    return noise, spans


def corrupt(rate, mean, sentinels, end, who, tokens):
    noise, spans = span_counts(rate, mean, len(tokens))

    def lengths(site, total):
        ends = [e + 1 for e in Draws(*who, "span corruption", site).choose(total - 1, spans - 1)] + [total]
        return [b - a for a, b in zip([0] + ends, ends)]

    rest, inputs, targets = list(tokens), [], []
    for k, (c, h) in enumerate(zip(lengths("clean", len(tokens) - noise), lengths("noise", noise))):
        inputs += rest[:c] + [sentinels[k]]
        targets += [sentinels[k]] + rest[c:c + h]
        rest = rest[c + h:]
    assert not rest
    return inputs + [end], targets + [end]


def thresholds(mean):
    weights, total, k = [1.0], 1.0, 1
    sums = []
    while True:
        sums.append(total)
        weights.append(weights[-1] * mean / k)
        if k > mean and total + weights[-1] == total:
            break
        total += weights[-1]
        k += 1
    out = [math.floor(s / total * 2.0**32) for s in sums]
    out[-1] = 2**32
    return out


def infill(rate, mean, mask, end, ends, who, tokens):
    sentences = [[]]
    for t in tokens:
        sentences[-1].append(t)
        if t in ends:
            sentences.append([])
    if not sentences[-1]:
        sentences.pop()
    if ends:
        order = Draws(*who, "text infilling", "order")
        for i in range(len(sentences) - 1, 0, -1):
            j = order.below(i, i + 1)
            sentences[i], sentences[j] = sentences[j], sentences[i]
    text = [t for s in sentences for t in s]
    masked = math.ceil(rate * len(text))
    draw, table, spans, i = Draws(*who, "text infilling", "lengths"), thresholds(mean), [], 0
    while sum(spans) < masked:
        bits = draw.bits(i) >> 32
        spans.append(min(next(k for k, t in enumerate(table) if bits < t), masked - sum(spans)))
        i += 1
    while len(spans) > masked:
        del spans[len(spans) - 1 - spans[::-1].index(0)]
    n = len(text) - masked + len(spans)
    places, inputs = set(Draws(*who, "text infilling", "places").choose(n, len(spans))), []
    for place in range(n):
        if place in places:
            inputs.append(mask)
            text = text[spans.pop(0):]
        else:
            inputs.append(text.pop(0))
    assert not text and not spans
    return inputs + [end], list(tokens) + [end]


def text_of(n, x):
    out = []
    for _ in range(n):
        x = (x * 1664525 + 1013904223) % 2**32
        out.append((x >> 8) % 900 + 2)
    return out


def main():
    spans, fills = [], []
    for case, (rate, mean, n) in enumerate([("0.15", "3", 2), ("0.15", "3", 3), ("0.15", "3", 10), ("0.15", "3", 30), ("0.15", "3", 70), ("0.15", "3", 568), ("0.5", "3", 100), ("0.5", "32", 300),
                                            ("0.15", "8", 200), ("0.9", "1", 50), ("0.25", "2.5", 90), ("0.000000001", "3", 40), ("0.999999999", "1", 40)]):
        who = (7 * case + 2**63, 12345678901 * case, case % 3 == 1)
        tokens, sentinels = text_of(n, case), list(range(32099, 31999, -1))
        inputs, targets = corrupt(Fraction(rate), Fraction(mean), sentinels, 1, who, tokens)
        spans.append({"rate": rate, "mean": mean, "seed": who[0], "sample": who[1], "evaluation": who[2], "tokens": tokens, "inputs": inputs, "targets": targets})
    for case, (rate, mean, n, ends) in enumerate([("0.35", 3.5, 1, []), ("0.35", 3.5, 2, [9]), ("0.35", 3.5, 512, []), ("0.35", 3.5, 512, list(range(2, 902, 20))), ("0.3", 3.0, 100, list(range(2, 902, 7))),
                                                  ("1", 3.5, 60, [5]), ("0.5", 0.5, 80, []), ("0.2", 64.0, 700, list(range(2, 902)))]):
        who = (5 * case + 3, 98765432109 * case, case % 2 == 1)
        tokens = text_of(n, 100 + case)
        inputs, targets = infill(Fraction(rate), mean, 900 + 2, 1, set(ends), who, tokens)
        fills.append({"rate": rate, "mean": mean, "seed": who[0], "sample": who[1], "evaluation": who[2], "sentence_ends": ends, "tokens": tokens, "inputs": inputs, "targets": targets})
    tables = [{"mean": mean, "thresholds": thresholds(mean)} for mean in (0.5, 1.0, 3.0, 3.5, 10.25, 64.0)]
    path = pathlib.Path(__file__).with_name("denoising.json")
    path.write_text(json.dumps({"spans": spans, "infilling": fills, "poisson": tables}, separators=(",", ":")).replace('{"rate"', '\n{"rate"') + "\n")


if __name__ == "__main__":
    main()
