"""The charsmap of SentencePiece's normalizers (precompiled_charsmap), made from rules of texts."""
import struct


def charsmap(rules):
    """The bytes: a double array of the keys as Darts has them, and behind it the texts that they become."""
    texts, tree = b"", {}
    for key, value in sorted(rules.items()):
        at = tree
        for byte in key.encode():
            at = at.setdefault(byte, {})
        at[-1] = len(texts)
        texts += value.encode() + b"\0"
    units, used = [0] * 256, {0}

    def place(node, index):
        labels = sorted(b for b in node if b >= 0)
        taken = [0] * (-1 in node) + labels
        base = 1
        while any(base ^ t in used for t in taken):
            base += 1
        while len(units) <= base | 255:
            units.extend([0] * 256)
        used.update(base ^ t for t in taken)
        assert base ^ index < 1 << 21
        units[index] |= (base ^ index) << 10
        if -1 in node:
            units[index] |= 1 << 8
            units[base] = node[-1] | 1 << 31
        for b in labels:
            units[base ^ b] |= b
            place(node[b], base ^ b)

    place(tree, 0)
    return struct.pack("<I", 4 * len(units)) + struct.pack("<%dI" % len(units), *units) + texts
