"""Sources of the random vectors z, and sampling of generations, mirrored pairs and blocks of candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from lmma import kernels
from lmma._text import shown
from lmma.kernels import Key
from lmma.numerics.recombination import Array, Indices, weighted_mean

if TYPE_CHECKING:
    from lmma.methods.es import StreamingTransform, Transform


class Source:
    """Source of standard normal vectors, a pure function of (key, generation, candidate)."""

    threads: int = 0  # for kernels; 0: their default

    def __init__(self, key: kernels.Key) -> None:
        self.key = key

    def draw(self, generation: int, first: int, z: Array) -> None:
        """Fill row ``r`` of ``z`` with the vector of candidate ``first + r``."""
        kernels.normals(self.key, generation, first, z, threads=self.threads)


class Batch(NamedTuple):
    """A request for candidates, starting at index ``first`` of a generation and one per row of ``out``."""

    source: Source
    generation: int
    mean: Array  # (n,)
    step: float | Array  # sigma, or one for each coordinate
    out: Array  # (rows, n), for the candidates mean + step * d
    z: Array  # (rows, n), for the standard normal vectors; no rows if they are not stored
    d: Array  # (rows, n), for the directions; may be ``out`` itself
    first: int = 0


BITS_PER_CHUNK = 2**22  # bits unpacked at a time


def independent_key(key: Key) -> Key:
    """Return a second key, whose numbers are independent of those drawn with ``key``."""
    return key[0] ^ 0x9E3779B97F4A7C15, key[1]


@final
class Rademacher(Source):
    """Source of random signs, +1 or -1 with equal probability, from one random bit per coordinate."""

    def draw(self, generation: int, first: int, z: Array) -> None:
        """Fill row ``r`` of ``z`` with the signs of candidate ``first + r``."""
        rows, n = z.shape
        blocks = -(-n // 256)  # a Philox block has four 64-bit words
        bits = np.random.Philox(
            key=np.array(self.key, dtype=np.uint64),
            counter=np.array([first * blocks, generation, 0, 0], dtype=np.uint64),
        )
        together = max(1, BITS_PER_CHUNK // (256 * blocks))
        for row in range(0, rows, together):
            part = z[row : row + together]
            words = bits.random_raw(4 * blocks * len(part)).astype("<u8", copy=False)
            octets = words.view(np.uint8).reshape(len(part), 32 * blocks)
            np.multiply(np.unpackbits(octets, axis=1, count=n, bitorder="little"), 2.0, out=part)
            part -= 1.0


@final
class Mirrored(Source):
    """Source of mirrored pairs: candidates 2j and 2j + 1 get vector j of another source and its negative."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.key)
        self.source = source

    def draw(self, generation: int, first: int, z: Array) -> None:
        """Fill row ``r`` of ``z`` with the vector of candidate ``first + r``."""
        lowest = first // 2
        highest = (first + len(z) - 1) // 2
        self.source.draw(generation, lowest, z[: highest - lowest + 1])
        for row in reversed(range(len(z))):  # backwards: each row is read before it is overwritten
            pair = (first + row) // 2 - lowest
            if (first + row) % 2:
                np.negative(z[pair], out=z[row])
            elif pair != row:
                z[row] = z[pair]


MIN_SHARE = 0.1  # lower limit on the squared length under mirroring, relative to that without


def sample_mirrored(transform: Transform, batch: Batch) -> None:
    """Fill ``batch`` with mirrored pairs; if the number of candidates is odd, the last one is unpaired."""
    out, z, d = batch.out, batch.z, batch.d
    drawn = (len(out) + 1) // 2
    transform.sample(batch._replace(out=out[:drawn], z=z[:drawn], d=d[:drawn]))
    twice = 2 * batch.mean
    for row in reversed(range(len(out))):  # backwards: each row is read before it is overwritten
        if row % 2:
            np.subtract(twice, out[row // 2], out=out[row])
        elif row:
            out[row] = out[row // 2]
    mirror_rows(z)
    if d is not out:
        mirror_rows(d)
    transform.paired(len(out))


def mirror_rows(rows: Array) -> None:
    """Set rows 2j and 2j + 1 to row j and its negative, in place."""
    for row in reversed(range(len(rows))):
        if row % 2:
            np.negative(rows[row // 2], out=rows[row])
        elif row:
            rows[row] = rows[row // 2]


def with_opposites(drawn: Array, count: int) -> Array:
    """Return ``count`` entries: each entry of ``drawn``, followed by its negative."""
    signs = np.ones(count, dtype=drawn.dtype)
    signs[1::2] = -1
    paired: Array = np.repeat(drawn, 2, axis=0)[:count] * signs.reshape(-1, *[1] * (drawn.ndim - 1))
    return paired


def mirrored_mu_w(mu_w: float, lam: int) -> float:
    """Return the selection mass that keeps paths standard normal under random selection of mirrored pairs.

    The mean of the selected z has the squared length sum w^2 - 2 sum w_a w_b over pairs (a, b), per
    coordinate. With random ranks, the product of two of the lam weights is (1 - sum w^2)/(lam (lam - 1)) on
    average, because the weights sum to 1.
    """
    squares = 1 / mu_w
    opposed = 2 * (lam // 2) * (1 - squares) / (lam * (lam - 1))
    return 1 / max(squares - opposed, MIN_SHARE * squares)


BLOCK_NUMBERS = 2**23  # default size of a block, in numbers
MIN_BLOCK_ROWS = 8  # each block needs two passes over the direction vectors


def rows_per_block(rows: int | None, popsize: int, n: int) -> int:
    """Validate ``rows`` and return the number of candidates per block."""
    if rows is None:
        rows = max(MIN_BLOCK_ROWS, BLOCK_NUMBERS // n)
    elif isinstance(rows, bool) or not isinstance(rows, int | np.integer):
        raise TypeError(f"rows must be an integer or None, got {shown(rows)}")
    elif rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    return min(int(rows), popsize)


class Streamed:
    """Candidates of a generation that is not stored; each is regenerated on access."""

    def __init__(self, transform: StreamingTransform, batch: Batch) -> None:
        self.transform, self.batch = transform, batch

    def __getitem__(self, row: int) -> Array:
        out = np.empty_like(self.batch.out[:1])
        self.transform.sample_block(self.batch._replace(out=out, first=int(row)))
        single: Array = out[0]
        return single


def redrawn_mean(source: Source, generation: int, weights: Array, order: Indices, like: Array) -> Array:
    """Return the sum of ``weights[i] * z[order[i]]``, regenerating z for four candidates at a time."""
    total, z = np.zeros_like(like), np.empty((4, len(like)), dtype=like.dtype)
    for start in range(0, len(weights), 4):
        some = weights[start : start + 4]
        for row, candidate in enumerate(order[start : start + len(some)].tolist()):
            source.draw(generation, candidate, z[row : row + 1])
        total += weighted_mean(some, np.arange(len(some)), z, source.threads)
    return total
