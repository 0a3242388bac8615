"""The kernels in plain NumPy: always available, and the meaning of the compiled core.

``threads`` is accepted everywhere and matters to the compiled core only.

Randomness is counter-based. Candidate ``k`` of generation ``t`` is read from NumPy's own Philox4x64-10
(period 2^256 for each of 2^128 keys), at a place that (key, t, k) alone determine:

    word 0 of the counter    block of four 64-bit words, numbered on from candidate to candidate
    word 1                   generation t
    words 2 and 3            zero

A candidate of ``n`` numbers owns ``2 h`` uniform words of the width of its dtype, ``h`` being half of ``n``
rounded up to whole vectors of four (float64) or eight (float32). The first ``h`` words give radii, the
second ``h`` angles; Box-Muller turns word pairs ``(i, h + i)`` into coordinates ``i`` and ``h + i``. The
upper bits of the second word give an angle in (-90, 90) degrees, its lowest bit the common sign. Radii
reach 8.49 in float64 and 6.66 in float32.
"""

from __future__ import annotations

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

CHUNK = 6144  # words handled at a time: a handful of arrays of this size stay in the second-level cache

# sqrt(2) sin(pi/2 x) / x in powers of x^2, least largest error for x^2 <= 1/4: 3e-18 and 3e-9.
_SINE64 = (
    2.221441469079183, -0.9135311874994271, 0.11270239285827924, -0.006621000189570047,
    0.00022689805070485287, -5.089247973794422e-06, 7.967284441819482e-08,
)  # fmt: skip
_SINE32 = (2.221441461885844, -0.913530286262879, 0.11268458300799666, -0.006507727001894782)


def half_length(n: int, dtype: npt.DTypeLike) -> int:
    """Return ``h``: how many radii, and how many angles, a candidate of ``n`` numbers owns."""
    lanes = 4 if np.dtype(dtype) == np.float64 else 8
    return lanes * -(-n // (2 * lanes))


def normals(key: Key, generation: int, first: int, out: Array, *, threads: int = 0) -> None:
    """Fill row ``r`` of ``out`` with the standard normal numbers of candidate ``first + r``."""
    rows, n = out.shape
    h = half_length(n, out.dtype)
    words = 2 * h * out.itemsize // 8  # 64-bit words a candidate
    bits = np.random.Philox(
        key=np.array(key, dtype=np.uint64),
        counter=np.array([first * words // 4, generation, 0, 0], dtype=np.uint64),
    )
    unsigned = np.uint64 if out.dtype == np.float64 else np.uint32
    together = max(1, CHUNK // h)  # short rows are handled several at a time
    work = np.empty((3, together, min(h, CHUNK)), dtype=out.dtype)
    for row in range(0, rows, together):
        block = out[row : row + together]
        raw = bits.random_raw(len(block) * words).view(unsigned).reshape(len(block), 2, h)
        pairs = np.ascontiguousarray(raw.swapaxes(0, 1))  # NumPy is slow on rows with gaps
        for start in range(0, h, CHUNK):
            chunk = slice(start, min(start + CHUNK, h))
            cosines, sines = _box_muller(
                pairs[0, :, chunk], pairs[1, :, chunk], work[:, : len(block), : chunk.stop - start]
            )
            block[:, chunk] = cosines[:, : max(0, n - start)]
            block[:, h + start : h + chunk.stop] = sines[:, : max(0, n - h - start)]


def _box_muller(radii: Words, angles: Words, work: Array) -> tuple[Array, Array]:
    """Return two standard normal numbers for each pair of words; the words are overwritten.

    With u uniform in (0, 1], r = +-sqrt(-2 ln u) and x uniform in [-1/2, 1/2), these are r cos(pi x) and
    r sin(pi x).
    """
    sign, w, square = work
    real, unsigned = work.dtype.type, radii.dtype.type
    double = real is np.float64
    signs = sign.view(unsigned)
    np.left_shift(angles, unsigned(63 if double else 31), out=signs)

    if double:
        radii >>= unsigned(12)
        radii |= unsigned(0x3FF0000000000000)
        r = radii.view(real)  # [1, 2)
        np.subtract(2.0, r, out=r)
    else:
        radii >>= unsigned(1)
        r = radii.view(np.int32).astype(real)  # keeps small u precise: long tails
        r += real(0.5)
        r *= real(2.0**-31)
    np.log(r, out=r)
    r *= -2.0
    np.sqrt(r, out=r)
    signed = r.view(unsigned)
    signed |= signs

    angles >>= unsigned(12 if double else 9)
    angles |= unsigned(0x3FF0000000000000 if double else 0x3F800000)
    x = angles.view(real)
    x -= 1.5
    series = _SINE64 if double else _SINE32
    np.multiply(x, x, out=square)
    np.multiply(square, series[-1], out=w)
    for coefficient in series[-2:0:-1]:
        w += coefficient
        w *= square
    w += series[0]
    w *= x  # sqrt(2) sin(pi/2 x): well conditioned, and so are both functions of the double angle
    np.multiply(w, w, out=square)
    np.subtract(2.0, square, out=x)
    np.sqrt(x, out=x)
    x *= w  # sin(pi x)
    x *= r
    np.subtract(1.0, square, out=square)  # cos(pi x)
    square *= r
    return square, x


def recombine(weights: Array, order: Indices, rows: Array, out: Array, *, threads: int = 0) -> None:
    """Set ``out`` to the sum of ``weights[i] * rows[order[i]]``."""
    weights = weights.astype(rows.dtype, copy=False)
    for columns in _strips(len(order), len(out)):
        np.matmul(weights, rows[order, columns], out=out[columns])


def squares(weights: Array, order: Indices, rows: Array, out: Array, *, threads: int = 0) -> None:
    """Set ``out`` to the sum of ``weights[i] * rows[order[i]] ** 2``."""
    weights = weights.astype(rows.dtype, copy=False)
    for columns in _strips(len(order), len(out)):
        np.matmul(weights, np.square(rows[order, columns]), out=out[columns])


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


def _strips(height: int, n: int) -> Iterator[slice]:
    """Cut ``n`` columns into strips, so that ``height`` rows of one fit the second-level cache."""
    width = max(1, 8 * CHUNK // max(1, height))
    return (slice(start, start + width) for start in range(0, n, width))


def fold(gram: Array, c_d: Array) -> tuple[float, Array]:
    """Return ``alpha`` and ``B`` with ``d = alpha z + (z V^T) B V`` for Algorithm 1's chain of factors.

    ``gram`` is ``V V^T`` for the vectors applied, in the order of application, ``c_d`` their rates.
    With a_j = 1 - c_d,j, alpha_j = a_1 ... a_j and s_j = m_j . d_{j-1} the chain reads

        s = (I - L)^{-1} diag(alpha_{j-1}) V z,    L_jk = (alpha_{j-1} / alpha_k) c_d,k gram_jk,  k < j,
        d = alpha_m z + sum_k (alpha_m / alpha_k) c_d,k s_k m_k.
    """
    gram, c_d = np.asarray(gram, dtype=np.float64), np.asarray(c_d, dtype=np.float64)
    return _fold(gram.tobytes(), c_d.tobytes())


@lru_cache(2)  # one generation asks for the same twice
def _fold(products: bytes, rates: bytes) -> tuple[float, Array]:
    alpha, lower, outer = _chain(rates)
    system = np.frombuffer(products).reshape(lower.shape) * lower
    system.flat[:: len(lower) + 1] = 1.0  # I - L
    mix: Array = np.linalg.inv(system)
    mix *= outer
    mix.flags.writeable = False  # every caller shares it
    return alpha, mix.T


@lru_cache(64)  # after the first m generations the rates stay the same
def _chain(rates: bytes) -> tuple[float, Array, Array]:
    """Return alpha_m, and what the Gram matrix and the inverse in ``fold`` are multiplied with."""
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
    where ``d`` is ``z`` taken through the first ``active`` direction vectors. ``z`` may be None. ``update``
    is done first, as by :func:`lm_update`; ``gram`` is of the vectors after it.
    """
    if update is not None:
        lm_update(vectors, *update)
    if z is None:
        z = np.empty_like(out)
    normals(key, generation, first, z)
    projections = z @ vectors.T
    if active:
        alpha, mix = fold(gram[:active, :active], c_d[:active])
        mixed = (projections[:, :active] @ mix).astype(out.dtype, copy=False)
        np.matmul(mixed, vectors[:active], out=out)
    else:
        alpha = 1.0
        out[...] = 0.0
    together = max(1, 2 * CHUNK // out.shape[1])  # rows: no temporary as large as the generation
    for row in range(0, len(out), together):
        d = out[row : row + together]
        d += alpha * z[row : row + together]
        d *= step
        d += mean
    return projections


def lm_update(vectors: Array, keep: Array, gain: Array, z_mean: Array, *, threads: int = 0) -> None:
    """Set row ``i`` of ``vectors`` to ``keep[i] * row + gain[i] * z_mean``."""
    keeps, gains = (rates.astype(vectors.dtype, copy=False)[:, None] for rates in (keep, gain))
    for columns in _strips(*vectors.shape):
        part = vectors[:, columns]
        part *= keeps
        part += gains * z_mean[columns]


def lm_gram(gram: Array, keep: Array, gain: Array, u: Array, length2: float) -> None:
    """Take ``gram`` = V V^T where :func:`lm_update` takes V; ``u`` = V z_mean, ``length2`` = |z_mean|^2."""
    half = keep * u
    half += (length2 / 2) * gain
    cross = np.multiply.outer(half, gain)
    gram *= np.multiply.outer(keep, keep)
    gram += cross
    gram += cross.T


def default_threads() -> int:
    """Return how many threads a call may use that does not say."""
    return 1


def backend() -> str:
    """Return one line that says which kernels are in use."""
    return "NumPy (the compiled core is not in use)"
