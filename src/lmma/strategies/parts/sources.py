"""Sources of z besides the normal distribution, likewise functions of (key, generation, candidate)."""

from __future__ import annotations

from typing import final

import numpy as np

from lmma.kernels import Key
from lmma.strategies.es import Source
from lmma.strategies.parts.recombination import Array

TOGETHER = 2**22  # bits unpacked at a time


def companion(key: Key) -> Key:
    """Return another key, for numbers that must not depend on those drawn with ``key``."""
    return key[0] ^ 0x9E3779B97F4A7C15, key[1]


@final
class Rademacher(Source):
    """Vectors of signs, +1 or -1 with equal odds: one random bit per coordinate."""

    def draw(self, generation: int, first: int, z: Array) -> None:
        """Fill row ``r`` of ``z`` with the signs of candidate ``first + r``."""
        rows, n = z.shape
        blocks = -(-n // 256)  # a block of Philox has four words of 64 bits
        bits = np.random.Philox(
            key=np.array(self.key, dtype=np.uint64),
            counter=np.array([first * blocks, generation, 0, 0], dtype=np.uint64),
        )
        together = max(1, TOGETHER // (256 * blocks))
        for row in range(0, rows, together):
            part = z[row : row + together]
            words = bits.random_raw(4 * blocks * len(part)).astype("<u8", copy=False)
            octets = words.view(np.uint8).reshape(len(part), 32 * blocks)
            np.multiply(np.unpackbits(octets, axis=1, count=n, bitorder="little"), 2.0, out=part)
            part -= 1.0


@final
class Mirrored(Source):
    """Pairs of opposite vectors: candidates 2j and 2j + 1 get vector j of another source and its negative."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.key)
        self.source = source

    def draw(self, generation: int, first: int, z: Array) -> None:
        """Fill row ``r`` of ``z`` with the vector of candidate ``first + r``."""
        lowest = first // 2
        highest = (first + len(z) - 1) // 2
        self.source.draw(generation, lowest, z[: highest - lowest + 1])
        for row in reversed(range(len(z))):  # from the last: a row is read before it is written over
            pair = (first + row) // 2 - lowest
            if (first + row) % 2:
                np.negative(z[pair], out=z[row])
            elif pair != row:
                z[row] = z[pair]
