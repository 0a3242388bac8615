"""The kernels in plain NumPy: always available, and the meaning of the compiled core.

Randomness is counter-based. Candidate ``k`` of generation ``t`` is read from NumPy's own Philox4x64-10
(period 2^256 for each of 2^128 keys), at a place that (key, t, k) alone determine:

    word 0 of the counter    block of four 64-bit words, numbered on from candidate to candidate
    word 1                   generation t
    words 2 and 3            zero

A candidate of ``n`` numbers owns ``2 h`` uniform words of the width of its dtype, ``h`` being half of ``n``
rounded up to whole vectors of four (float64) or eight (float32). The first ``h`` words give radii, the
second ``h`` angles; Box-Muller turns word pairs ``(i, h + i)`` into coordinates ``i`` and ``h + i``. Radii
reach 8.49 in float64 and 6.66 in float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Words = npt.NDArray[Any]  # unsigned, of the width of the numbers made from them
Key = tuple[int, int]

CHUNK = 4096  # words handled at a time: six arrays of this size stay in the second-level cache

# sin(x) / x on [0, pi/4] in powers of x^2; the first term left out is below half a unit in the last place.
_SINE64 = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(8)]
_SINE32 = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(5)]


def half_length(n: int, dtype: npt.DTypeLike) -> int:
    """Return ``h``: how many radii, and how many angles, a candidate of ``n`` numbers owns."""
    lanes = 4 if np.dtype(dtype) == np.float64 else 8
    return lanes * -(-n // (2 * lanes))


def normals(key: Key, generation: int, first: int, out: Array) -> None:
    """Fill row ``r`` of ``out`` with the standard normal numbers of candidate ``first + r``."""
    rows, n = out.shape
    h = half_length(n, out.dtype)
    words = 2 * h * out.itemsize // 8  # 64-bit words a candidate
    bits = np.random.Philox(
        key=np.array(key, dtype=np.uint64),
        counter=np.array([first * words // 4, generation, 0, 0], dtype=np.uint64),
    )
    pairs = _pairs64 if out.dtype == np.float64 else _pairs32
    unsigned = np.uint64 if out.dtype == np.float64 else np.uint32
    together = max(1, CHUNK // h)  # short rows are handled several at a time
    for row in range(0, rows, together):
        block = out[row : row + together]
        raw = bits.random_raw(len(block) * words).view(unsigned).reshape(len(block), 2, h)
        for start in range(0, h, CHUNK):
            chunk = slice(start, min(start + CHUNK, h))
            cosines, sines = pairs(raw[:, 0, chunk], raw[:, 1, chunk])
            block[:, chunk] = cosines[:, : max(0, n - start)]
            block[:, h + start : h + chunk.stop] = sines[:, : max(0, n - h - start)]


def _pairs64(radii: Words, angles: Words) -> tuple[Array, Array]:
    """Return two independent standard normal numbers for each pair of words."""
    one = np.uint64(0x3FF0000000000000)
    u = 2.0 - ((radii >> np.uint64(12)) | one).view(np.float64)  # uniform in (0, 1]
    phi = ((angles >> np.uint64(12)) | one).view(np.float64)
    phi -= 1.0
    cosine, sine = _rotate(u, phi, _SINE64)
    top = np.uint64(63)
    cosine.view(np.uint64)[...] ^= angles << top  # bit 0: sign of the cosine
    sine.view(np.uint64)[...] ^= (angles >> np.uint64(1)) << top  # bit 1: sign of the sine
    return cosine, sine


def _pairs32(radii: Words, angles: Words) -> tuple[Array, Array]:
    """Return two independent standard normal numbers in single precision for each pair of words."""
    u = (radii >> np.uint32(1)).view(np.int32).astype(np.float32)  # keeps small u precise: long tails
    u += np.float32(0.5)
    u *= np.float32(2.0**-31)
    phi = ((angles >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32)
    phi -= np.float32(1.0)
    cosine, sine = _rotate(u, phi, _SINE32)
    top = np.uint32(31)
    cosine.view(np.uint32)[...] ^= angles << top
    sine.view(np.uint32)[...] ^= (angles >> np.uint32(1)) << top
    return cosine, sine


def _rotate(u: Array, phi: Array, series: list[float]) -> tuple[Array, Array]:
    """Return r cos(2x) and r sin(2x) for r = sqrt(-2 ln u) and x = phi pi/4, overwriting both inputs."""
    r = np.log(u, out=u)
    r *= -2.0
    np.sqrt(r, out=r)
    phi *= phi.dtype.type(np.pi / 4)
    square = phi * phi
    s = square * series[-1]
    for coefficient in series[-2:0:-1]:
        s += coefficient
        s *= square
    s += 1.0
    s *= phi  # sin x, with x in [0, pi/4): well conditioned, and cos x too
    np.multiply(s, s, out=square)
    sine = np.sqrt(1.0 - square)
    sine *= s
    sine *= 2.0
    sine *= r
    square *= -2.0
    square += 1.0
    square *= r
    return square, sine


def recombine(weights: Array, order: npt.NDArray[np.intp], rows: Array, out: Array) -> None:
    """Set ``out`` to the sum of ``weights[i] * rows[order[i]]``."""
    out[...] = 0.0
    for weight, index in zip(weights.tolist(), order.tolist(), strict=True):
        out += weight * rows[index]


def fold(gram: Array, c_d: Array) -> tuple[float, Array]:
    """Return ``alpha`` and ``B`` with ``d = alpha z + (z V^T) B V`` for Algorithm 1's chain of factors.

    ``gram`` is ``V V^T`` for the vectors applied, in the order of application, ``c_d`` their rates.
    With a_j = 1 - c_d,j, alpha_j = a_1 ... a_j and s_j = m_j . d_{j-1} the chain reads

        s = (I - L)^{-1} diag(alpha_{j-1}) V z,    L_jk = (alpha_{j-1} / alpha_k) c_d,k gram_jk,  k < j,
        d = alpha_m z + sum_k (alpha_m / alpha_k) c_d,k s_k m_k.
    """
    alpha = np.cumprod(1.0 - c_d)
    before = np.concatenate(([1.0], alpha[:-1]))  # alpha_{j-1}
    gain = c_d / alpha
    lower = np.tril(gram, -1) * before[:, None] * gain
    inverse = np.linalg.inv(np.eye(len(c_d)) - lower)
    last = float(alpha[-1])
    return last, (inverse * before * (last * gain)[:, None]).T


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
    z: Array,
    out: Array,
) -> Array:
    """Draw candidates of LM-MA-ES; return the projections ``z V^T`` on all direction vectors.

    Afterwards ``z`` holds the standard normal numbers and ``out`` the candidates ``mean + step * d``,
    where ``d`` is ``z`` taken through the first ``active`` direction vectors.
    """
    normals(key, generation, first, z)
    projections = z @ vectors.T
    if active:
        alpha, mix = fold(gram[:active, :active], c_d[:active])
        mixed = (projections[:, :active] @ mix).astype(out.dtype, copy=False)
        np.matmul(mixed, vectors[:active], out=out)
    else:
        alpha = 1.0
        out[...] = 0.0
    for d, numbers in zip(out, z, strict=True):  # row by row: no temporary as large as the generation
        d += alpha * numbers
        d *= step
        d += mean
    return projections


def lm_update(vectors: Array, keep: Array, gain: Array, z_mean: Array) -> None:
    """Set row ``i`` of ``vectors`` to ``keep[i] * row + gain[i] * z_mean``."""
    for row, k, g in zip(vectors, keep.tolist(), gain.tolist(), strict=True):
        row *= k
        row += g * z_mean


def backend() -> str:
    """Return one line that says which kernels are in use."""
    return "NumPy (the compiled core is not in use)"
