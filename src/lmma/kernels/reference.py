"""Reference implementation of the kernels in NumPy, which defines the results of the compiled core.

``threads`` is accepted everywhere and affects only the compiled core.

Randomness is counter-based. Candidate ``k`` of generation ``t`` is read from NumPy's own Philox4x64-10
(period 2^256 for each of 2^128 keys), at a position determined by (key, t, k):

    word 0 of the counter    block of four 64-bit words, numbered consecutively over candidates
    word 1                   generation t
    words 2 and 3            zero

A candidate of ``n`` numbers uses ``2 h`` uniform words of the width of its dtype, ``h`` being half of ``n``
rounded up to whole vectors of four (float64) or eight (float32). The first ``h`` words give radii, the
second ``h`` angles; Box-Muller turns word pairs ``(i, h + i)`` into coordinates ``i`` and ``h + i``. The
upper bits of the second word give an angle in (-90, 90) degrees, its lowest bit the common sign. Radii
reach 8.49 in float64 and 6.66 in float32.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Words = npt.NDArray[Any]  # unsigned, of the width of the numbers made from them
Indices = npt.NDArray[np.intp]
Key = tuple[int, int]
Update = tuple[Array, Array, Array]  # keep, gain and z_mean of ``lm_update``

CHUNK = 12288  # words handled at a time: enough to amortise calls, few enough for the caches
PIECE = 4096  # 64-bit words drawn at a time for short rows, in an array that stays in the cache
LARGEST = 8192  # and for one row: larger arrays are allocated from and returned to the system each time

# Minimax approximation of sqrt(2) sin(pi/2 x) / x in powers of x^2 for x^2 <= 1/4. Relative error: 3e-9 in
# float32; in float64 3e-18, or 5e-17 with rounded coefficients. From benchmarks/normal_coefficients.py.
_SINE64 = (
    2.221441469079183, -0.9135311874994271, 0.11270239285827924, -0.006621000189570047,
    0.00022689805070485287, -5.089247973794422e-06, 7.967284441819482e-08,
)  # fmt: skip
_SINE32 = (2.221441461885844, -0.913530286262879, 0.11268458300799666, -0.006507727001894782)


_thread = threading.local()


class _Constants:
    """The constants of Box-Muller as arrays of one dtype, which NumPy handles twice as fast as scalars."""

    def __init__(self, real: npt.DTypeLike, unsigned: npt.DTypeLike, series: tuple[float, ...]) -> None:
        def number(value: float) -> Array:
            return np.array(value, real)

        self.series = [number(coefficient) for coefficient in series]
        self.one, self.two, self.minus_two, self.middle = map(number, (1.0, 2.0, -2.0, 1.5))
        bits, mantissa = (64, 52) if np.dtype(real) == np.float64 else (32, 23)
        self.to_sign: Words = np.array(bits - 1, unsigned)  # shifts the lowest bit to the sign bit
        self.to_mantissa: Words = np.array(bits - mantissa, unsigned)
        self.exponent: Words = self.one.view(unsigned)  # with any mantissa: [1, 2)


_CONSTANTS = {
    np.dtype(np.float64): _Constants(np.float64, np.uint64, _SINE64),
    np.dtype(np.float32): _Constants(np.float32, np.uint32, _SINE32),
}


def half_length(n: int, dtype: npt.DTypeLike) -> int:
    """Return ``h``, the number of radii and of angles of a candidate of ``n`` numbers."""
    lanes = 4 if np.dtype(dtype) == np.float64 else 8
    return lanes * -(-n // (2 * lanes))


def normals(key: Key, generation: int, first: int, out: Array, *, threads: int = 0) -> None:
    """Fill row ``r`` of ``out`` with the standard normal numbers of candidate ``first + r``."""
    rows, n = out.shape
    h = half_length(n, out.dtype)
    words = 2 * h * out.itemsize // 8  # 64-bit words per candidate
    bits = _philox(key, [first * words // 4, generation, 0, 0])
    together = max(1, CHUNK // h)  # short rows are handled several at a time
    spare = _spare(out.dtype)
    work = spare[: 3 * together * min(h, CHUNK)].reshape(3, together, -1)
    for row in range(0, rows, together):
        block = out[row : row + together]
        pairs = _word_pairs(bits, len(block), h, spare[work.size :])
        for start in range(0, h, CHUNK):
            chunk = slice(start, min(start + CHUNK, h))
            _box_muller(
                pairs[0, :, chunk], pairs[1, :, chunk], work[:, : len(block), : chunk.stop - start],
                block[:, chunk], block[:, h + start : h + chunk.stop],
            )  # fmt: skip


def _philox(key: Key, counter: list[int]) -> np.random.Philox:
    """Return the generator of this thread, set to ``counter``; a new one would take five times as long."""
    if not hasattr(_thread, "bits"):
        _thread.bits = np.random.Philox(0)
        _thread.used_up = {**_thread.bits.state, "buffer_pos": 4}
    place = {"counter": np.array(counter, dtype=np.uint64), "key": np.array(key, dtype=np.uint64)}
    bits: Any = _thread.bits
    bits.state = {**_thread.used_up, "state": place}
    return bits  # type: ignore[no-any-return]


def _word_pairs(bits: np.random.Philox, rows: int, h: int, spare: Array) -> Words:
    """Return the words of radii and of angles, (2, rows, h), of the next ``rows`` candidates."""
    unsigned = np.dtype(f"u{spare.itemsize}")
    words = 2 * h * spare.itemsize // 8
    if words > LARGEST:
        return bits.random_raw(rows * words).view(unsigned).reshape(rows, 2, h).swapaxes(0, 1)
    pairs = spare[: 2 * rows * h].view(unsigned).reshape(2, rows, h)
    together = max(1, PIECE // words)
    for row in range(0, rows, together):
        part = pairs[:, row : row + together]
        raw = bits.random_raw(part.shape[1] * words).view(unsigned)
        part[...] = raw.reshape(-1, 2, h).swapaxes(0, 1)
    return pairs


def _spare(dtype: npt.DTypeLike) -> Array:
    """Return the work space of this thread, five chunks long, for the kernel that is running."""
    if not hasattr(_thread, "spare"):
        space = np.empty(5 * CHUNK + 8)
        start = -space.ctypes.data % 64 // 8  # aligned to a cache line
        _thread.spare = space[start : start + 5 * CHUNK]
    spare: Array = _thread.spare.view(dtype)
    return spare


def _box_muller(radii: Words, angles: Words, work: Array, cosines: Array, sines: Array) -> None:
    """Set ``cosines`` and ``sines`` to two standard normal numbers for each pair of words.

    With u uniform in (0, 1], r = +-sqrt(-2 ln u) and x uniform in [-1/2, 1/2), these are r cos(pi x) and
    r sin(pi x). They may be narrower than the words, of which the rest is unused. The words are overwritten.
    """
    sign, w, square = work
    real, unsigned = work.dtype.type, radii.dtype.type
    c = _CONSTANTS[work.dtype]
    signs = sign.view(unsigned)
    np.left_shift(angles, c.to_sign, signs)

    if real is np.float64:
        radii >>= c.to_mantissa
        radii |= c.exponent
        r = radii.view(real)  # [1, 2)
        np.subtract(c.two, r, r)
    else:
        radii >>= unsigned(1)
        r = radii.view(np.int32).astype(real)  # keeps small u precise: long tails
        r += real(0.5)
        r *= real(2.0**-31)
    np.log(r, r)
    r *= c.minus_two
    np.sqrt(r, r)
    signed = r.view(unsigned)
    signed |= signs

    angles >>= c.to_mantissa
    angles |= c.exponent
    x = angles.view(real)
    x -= c.middle
    np.multiply(x, x, square)
    np.multiply(square, c.series[-1], w)
    for coefficient in c.series[-2:0:-1]:
        w += coefficient
        w *= square
    w += c.series[0]
    w *= x  # sqrt(2) sin(pi/2 x): well conditioned, and so are both functions of the double angle
    np.multiply(w, w, square)
    np.subtract(c.two, square, x)
    np.sqrt(x, x)
    x *= w  # sin(pi x)
    np.subtract(c.one, square, square)  # cos(pi x)
    for factor, out in ((square, cosines), (x, sines)):
        width = out.shape[1]
        np.multiply(factor[:, :width], r[:, :width], out=out)


def recombine(weights: Array, order: Indices, rows: Array, out: Array, *, threads: int = 0) -> None:
    """Set ``out`` to the sum of ``weights[i] * rows[order[i]]``."""
    weights = weights.astype(rows.dtype, copy=False)
    for columns in _strips(len(order), len(out)):
        np.matmul(weights, rows[order, columns], out=out[columns])


def squares(weights: Array, order: Indices, rows: Array, out: Array, *, threads: int = 0) -> None:
    """Set ``out`` to the sum of ``weights[i] * rows[order[i]] ** 2``."""
    weights = weights.astype(rows.dtype, copy=False)
    for columns in _strips(len(order), len(out)):
        picked = rows[order, columns]
        np.matmul(weights, np.square(picked, out=picked), out=out[columns])


def rescale(
    scales: Array,
    rate: float,
    weights: Array,
    order: Indices,
    rows: Array,
    path: Array,
    share: float,
    *,
    threads: int = 0,
) -> None:
    """Multiply ``scales`` by exp(rate (s + share (path^2 - 1))), s the sum of weights[i] rows[order[i]]^2."""
    excess = np.empty_like(scales)
    squares(weights, order, rows, excess)
    excess += share * (np.square(path) - 1)
    excess *= rate
    np.exp(excess, out=excess)
    scales *= excess


def _spare_like(strip: Array) -> Array:
    return _spare(strip.dtype)[: strip.size].reshape(strip.shape)


def _strips(height: int, n: int) -> Iterator[slice]:
    """Cut ``n`` columns into strips, so that ``height`` rows of one fit the second-level cache."""
    width = max(1, 4 * CHUNK // max(1, height))
    return (slice(start, start + width) for start in range(0, n, width))


def _tiles(height: int, n: int) -> Iterator[tuple[slice, slice]]:
    """Cut an array into tiles of whole rows, or of pieces of one row, that fit the second-level cache."""
    together, width = max(1, CHUNK // n), min(n, CHUNK)
    for row in range(0, height, together):
        for column in range(0, n, width):
            yield slice(row, row + together), slice(column, column + width)


def fold(gram: Array, c_d: Array) -> tuple[float, Array]:
    """Return ``alpha`` and ``B`` with ``d = alpha z + (z V^T) B V`` for Algorithm 1's chain of factors.

    ``gram`` is ``V V^T`` for the vectors applied, in the order of application, ``c_d`` their rates.
    With a_j = 1 - c_d,j, alpha_j = a_1 ... a_j and s_j = m_j . d_{j-1} the chain reads

        s = (I - L)^{-1} diag(alpha_{j-1}) V z,    L_jk = (alpha_{j-1} / alpha_k) c_d,k gram_jk,  k < j,
        d = alpha_m z + sum_k (alpha_m / alpha_k) c_d,k s_k m_k.
    """
    gram, c_d = np.asarray(gram, dtype=np.float64), np.asarray(c_d, dtype=np.float64)
    return _fold(gram.tobytes(), c_d.tobytes())


@lru_cache(2)  # called twice per generation with the same arguments
def _fold(products: bytes, rates: bytes) -> tuple[float, Array]:
    alpha, lower, outer = _chain(rates)
    system = np.frombuffer(products).reshape(lower.shape) * lower
    system.flat[:: len(lower) + 1] = 1.0  # I - L
    mix: Array = np.linalg.inv(system)
    mix *= outer
    mix.flags.writeable = False  # shared by all callers
    return alpha, mix.T


@lru_cache(64)  # after the first m generations the rates are constant
def _chain(rates: bytes) -> tuple[float, Array, Array]:
    """Return alpha_m, and the factors of the Gram matrix and of the inverse in ``fold``."""
    c_d = np.frombuffer(rates)
    alpha = np.cumprod(1.0 - c_d)
    before = np.concatenate(([1.0], alpha[:-1]))  # alpha_{j-1}
    gain = c_d / alpha
    lower = np.multiply.outer(-before, gain) * np.tri(len(c_d), k=-1)
    return float(alpha[-1]), lower, np.multiply.outer(alpha[-1] * gain, before)


def lm_direction(
    weights: Array,
    order: Indices,
    projections: Array,
    active: int,
    gram: Array,
    c_d: Array,
    vectors: Array,
    z_mean: Array,
    *,
    threads: int = 0,
) -> tuple[Array, Array]:
    """Return V z_mean, the weighted mean of rows of ``projections``, and M z_mean."""
    u: Array = weights @ projections[order]
    if active == 0:
        return u, z_mean.copy()
    alpha, mix = fold(gram[:active, :active], c_d[:active])
    mixed = (u[:active] @ mix).astype(z_mean.dtype, copy=False)
    direction: Array = mixed @ vectors[:active]
    direction += alpha * z_mean
    return u, direction


def lm_sample(
    key: Key,
    generation: int,
    first: int,
    vectors: Array,
    active: int,
    gram: Array,
    c_d: Array,
    mean: Array,
    step: float | Array,
    z: Array | None,
    out: Array,
    *,
    update: Update | None = None,
    threads: int = 0,
) -> Array:
    """Draw candidates of LM-MA-ES; return the projections ``z V^T`` on all direction vectors.

    Afterwards ``z`` holds the standard normal numbers and ``out`` the candidates ``mean + step * d``,
    where ``d`` is ``z`` transformed by the first ``active`` direction vectors. ``z`` may be None. ``update``
    is applied first, as by :func:`lm_update`; ``gram`` belongs to the updated vectors.
    """
    if update is not None:
        lm_update(vectors, *update)
    if z is None:
        z = np.empty_like(out)
    normals(key, generation, first, z)
    projections = z @ vectors.T
    alpha, mixed = 1.0, projections[:, :0]
    if active:
        alpha, mix = fold(gram[:active, :active], c_d[:active])
        mixed = (projections[:, :active] @ mix).astype(out.dtype, copy=False)
    _candidates(alpha, mixed, vectors[:active], mean, step, z, out)
    return projections


def lm_workspace(n: int, rows: int, m: int, itemsize: int, *, threads: int = 0) -> int:
    """Return the approximate number of bytes that :func:`lm_sample` allocates if ``z`` is kept."""
    return 3 * 8 * rows * m + 2 * n * itemsize + 8 * 5 * CHUNK  # products, words per row, spare arrays


def _candidates(
    alpha: float, mixed: Array, vectors: Array, mean: Array, step: float | Array, z: Array, out: Array
) -> None:
    """Set ``out`` to ``mean + step * (alpha z + mixed @ vectors)``."""
    steps = step if isinstance(step, np.ndarray) and step.ndim else None
    if steps is None:
        mixed = mixed * mixed.dtype.type(step)
        alpha *= float(step)
    np.matmul(mixed, vectors, out=out)
    for rows, columns in _tiles(*out.shape):
        d = out[rows, columns]
        d += np.multiply(z[rows, columns], alpha, out=_spare_like(d))
        if steps is not None:
            d *= steps[columns]
        d += mean[columns]


def lm_update(vectors: Array, keep: Array, gain: Array, z_mean: Array, *, threads: int = 0) -> None:
    """Set row ``i`` of ``vectors`` to ``keep[i] * row + gain[i] * z_mean``."""
    keeps, gains = (rates.astype(vectors.dtype, copy=False)[:, None] for rates in (keep, gain))
    for rows, columns in _tiles(*vectors.shape):
        part = vectors[rows, columns]
        part *= keeps[rows]
        part += np.multiply(gains[rows], z_mean[columns], out=_spare_like(part))


def fade(path: Array, keep: float, gain: float, step: Array) -> None:
    """Set ``path`` to ``keep * path + gain * step``."""
    path *= keep
    path += gain * step


def lm_gram(gram: Array, keep: Array, gain: Array, u: Array, length2: float) -> None:
    """Update ``gram`` = V V^T as :func:`lm_update` does V; ``u`` = V z_mean, ``length2`` = |z_mean|^2."""
    half = keep * u
    half += (length2 / 2) * gain
    cross = half[:, None] * gain
    gram *= keep
    gram *= keep[:, None]
    gram += cross
    gram += cross.T


def default_threads() -> int:
    """Return the number of threads used if ``threads`` is not given."""
    return 1


def backend() -> str:
    """Return a one-line description of the kernels in use."""
    return "NumPy (the compiled core is not in use)"
