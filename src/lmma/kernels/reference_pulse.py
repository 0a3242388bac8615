"""Reference implementation of the kernels of pulse in NumPy; see ``methods/pulse`` for the formulas.

Until D changes, all rows that pulse computes lie in the span of z, the paths and the axes. Their coefficients
are computed first, from one product of all z with all axes:

    q = z + (u l-) U,  a = q + (e b-) V,  b = q + (e b+) V,  B d = z + (u l+) U + ((V d) b-) V

with u = U z, e = V q, and l+-, b+- the powers +-1/2 of 1 + s and of 1 + h, minus 1. The same coefficients
give images A a and duals A^-T a from those of z and of the axes; A B L z is known from the candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lmma.kernels.reference import Array, Key, _tiles, normals

CALMING = 0.3  # damping of D for each axis that contracts across coordinates
SMALLEST = 1e-12  # smaller eigenvalues are set to 0,
LOST = 100.0  # as are those below LOST rounding units of the largest
SHORTEST = 1e-30  # lower limit on squared lengths that are divided by


class Metric(NamedTuple):
    """The learned metric: D, the axes U and V, and their eigenvalues in F and H and gains in L and B."""

    scales: Array  # (n,) D
    axes: Array  # (k, n) the rows of U, then those of V
    longs: int  # the number of rows of U
    sizes: Array  # (k,) S, then T; float64
    gains: Array  # (k,) s, then h; float64
    concentration: Array  # (k - longs,) rho; float64


class Ranks(NamedTuple):
    """The weights of the rows collected for one update, possibly over several generations."""

    ranks: Array  # (rows,) v_i, float64
    weights: Array  # (rows,) w_i, 0 where not selected; float64
    better: int  # number of rows selected
    worse: int  # number of rows with negative v_i
    generations: int


class Rates(NamedTuple):
    """The learning rates of one update: of D, of the axes L (long) and B (short), and of A."""

    scale: float  # c_D / 2
    share: float  # of p_sigma in g
    pull: float  # of log D towards its mean
    reach: float  # limit beyond which log D is pulled by (1 - theta)^2 as well
    c_1_long: float
    c_mu_long: float
    c_short: float
    c_mu: float  # of A, all that follow
    c_1: float
    against: float  # of those with negative v_i, at length 1
    fade: float


class ThroughCore(NamedTuple):
    """The rows multiplied by the core matrix A between D and B, and the damping of D by its correlations."""

    images: Array  # A B L z for the rows z, computed when the candidates were sampled
    duals: Array  # A^-T z
    paths_and_axes_images: Array  # A x for p_sigma, p_c and the axes
    paths_and_axes_duals: Array  # A^-T x for the same rows
    path: Array  # (n,) p_A
    damping: Array  # (n,)


class Limits(NamedTuple):
    """Thresholds below which the sizes of axes give no gain: tau_F of long axes, tau_H of short ones."""

    tau_long: float
    tau_short: float  # times rho
    span: float  # times the sum of an axis' fourth powers: rho's root, from 1 on
    path_gain: float  # factor of p_c in F


class Learned(NamedTuple):
    """The rows from which axes and A are learned after the update of D."""

    long_rows: Array  # of F, times A: the kept part, the path, the selected rows
    short_rows: Array  # of H, times A^-T: the kept part, the rows selected against
    core_rows: Array  # G + fade I: rows to add squared, then ``worse`` rows to subtract, then unused rows


def pulse_sample(
    key: Key,
    place: tuple[int, int],
    metric: Metric,
    cross: Array,
    mean: Array,
    steps: Array,
    z: Array,
    out: Array,
    *,
    threads: int = 0,
) -> None:
    """Draw z for the candidates from ``place`` (generation, first) on; set ``out`` to mean + steps * (B L z).

    ``cross`` is V U^T.
    """
    normals(key, *place, z)
    out[...] = z
    picked = np.flatnonzero(metric.gains > 0)
    longs = int(np.searchsorted(picked, metric.longs))
    if len(picked):
        axes, gains = metric.axes[picked], metric.gains[picked]
        products = z @ axes.T
        stretch = products[:, :longs] * (np.sqrt(1 + gains[:longs]) - 1)
        inner = products[:, longs:] + stretch @ cross[picked[longs:] - metric.longs][:, picked[:longs]].T
        shrink = inner * (1 / np.sqrt(1 + gains[longs:]) - 1)
        out += np.hstack((stretch, shrink)).astype(z.dtype) @ axes
    for rows, columns in _tiles(*out.shape):
        part = out[rows, columns]
        part *= steps[columns]
        part += mean[columns]


def pulse_learn(
    z: Array,
    paths: Array,
    ranked: Ranks,
    metric: Metric,
    rates: Rates,
    through_core: ThroughCore | None = None,
    out: Learned | None = None,
    *,
    threads: int = 0,
) -> Learned:
    """Update D from the ranked ``z``, and return the rows from which F and H are updated.

    ``paths`` are p_sigma and p_c. ``metric.scales`` are changed in place. The arrays of ``out``, returned by
    an earlier call, may be reused.
    """
    v, w, _, _, t = ranked
    count, dtype = len(z), z.dtype
    better, worse = w > 0, v < 0
    U, V = metric.axes[: metric.longs], metric.axes[metric.longs :]
    s, h = metric.gains[: metric.longs], metric.gains[metric.longs :]
    l_plus, l_minus = np.sqrt(1 + s) - 1, 1 / np.sqrt(1 + s) - 1
    b_plus, b_minus = np.sqrt(1 + h) - 1, 1 / np.sqrt(1 + h) - 1

    base = np.vstack((z, paths) if through_core is None else (z, paths, through_core.path))
    u, y, cross = (np.asarray(product, np.float64) for product in (base @ U.T, base @ V.T, U @ V.T))
    e = y + (u * l_minus) @ cross
    of_a = np.hstack((u * l_minus, e * b_minus))
    of_b = np.hstack((u * l_minus, e * b_plus))
    of_d = np.hstack((u * l_plus, (y + (u * l_plus) @ cross) * b_minus))
    of_long = np.hstack((np.eye(len(s)), cross * b_minus))  # B U

    def rows(coefficients: Array, axes: Array) -> Array:
        product: Array = coefficients.astype(dtype) @ axes
        return product

    first, of_image = count + 2, of_a[: count + 1].copy()
    if through_core is None:
        images = duals = np.vstack((base, metric.axes))
    else:
        images = np.vstack((through_core.images, through_core.paths_and_axes_images))
        duals = np.vstack((through_core.duals, through_core.paths_and_axes_duals))
        of_image[:count] -= of_d[:count]  # the images include B L
    products = images[: count + 1] + rows(of_image, images[first:])
    products *= duals[: count + 1] + rows(of_a[: count + 1], duals[first:])
    expected = 1 - (h / (1 + h)).astype(dtype) @ (images[first + len(s) :] * duals[first + len(s) :])
    expected -= (s / (1 + s)).astype(dtype) @ (rows(of_long, images[first:]) * rows(of_long, duals[first:]))
    g = v.astype(dtype) @ products[:count] + rates.share * (products[count] - expected)
    if through_core is not None:
        g *= through_core.damping
    change = _rescaled(g, metric, rates, t)

    c = rates.c_mu_long
    kept = np.sqrt((1 - rates.c_1_long - c) ** t * metric.sizes[: len(s)])
    mixed = (-c / 2 * kept * (1 + l_minus) * np.abs(v[worse])[:, None] * u[:count][worse]).T
    along_axes = (kept * (1 + t * c / 2))[:, None] * of_long
    if through_core is None:
        along_axes += mixed @ of_d[:count][worse]
    stay = rows(along_axes, images[first:]) + rows(mixed, images[:count][worse])
    path = images[count + 1] + rows(y[count + 1] * b_minus, images[first + len(s) :])
    selected = images[:count][better]
    if through_core is None:
        selected = selected + rows(of_d[:count][better], images[first:])
    selected = selected * np.sqrt(c * w[better]).astype(dtype)[:, None]
    long_rows = np.vstack((stay, path, selected)) / change

    c = rates.c_short
    kept = np.sqrt((1 - c) ** t * metric.sizes[len(s) :])
    mixed = (-c / 2 * kept * (1 + b_minus) * w[better][:, None] * e[:count][better]).T
    along_axes = np.hstack((np.zeros((len(h), len(s))), np.diag(kept * (1 + t * c / 2))))
    stay = rows(along_axes + mixed @ of_b[:count][better], duals[first:]) + rows(mixed, duals[:count][better])
    against = duals[:count][worse] + rows(of_b[:count][worse], duals[first:])
    against *= np.sqrt(-c * v[worse]).astype(dtype)[:, None]
    short_rows = np.vstack((stay, against)) * change

    if through_core is None:
        return Learned(long_rows, short_rows, z[:0])
    a = base + rows(of_a, metric.axes)
    # B L^-2 B = I - (B U)^T s/(1 + s) B U - V^T h/(1 + h) V
    used = metric.gains > 0
    axis_rows = np.vstack((rows(of_long, metric.axes), V))[used]
    core_rows = np.vstack((a[:count][~worse], a[-1:], axis_rows, a[:count][worse]))
    fixed = rates.fade * (metric.gains / (1 + metric.gains))[used]
    lengths2 = np.maximum(np.sum(np.square(z[worse], dtype=np.float64), axis=1), SHORTEST)
    taken = -rates.c_mu * rates.against * v[worse] / lengths2
    core_rows *= np.sqrt(np.concatenate((rates.c_mu * v[~worse], [rates.c_1], fixed, taken)))[:, None].astype(
        dtype
    )
    return Learned(long_rows, short_rows, core_rows)


def _rescaled(g: Array, metric: Metric, rates: Rates, generations: int) -> Array:
    """Multiply D by exp(c_D theta / 2 (g - pull towards the mean)); return the factors, on average 1."""
    axes, longs, part = metric.axes, metric.longs, metric.gains / (1 + metric.gains)
    theta = 1 / (1 + CALMING * float(np.sum(part[longs:] ** 2 / metric.concentration)))
    share = part.astype(g.dtype)
    # D must not grow in a coordinate that an axis contracts, nor shrink in one that an axis expands
    taken = np.where(g > 0, share[longs:] @ axes[longs:] ** 2, share[:longs] @ axes[:longs] ** 2)
    g = g * np.maximum(1 - 2 * taken, 0.0)
    logs = np.log(metric.scales)
    logs -= logs.mean()
    back = rates.pull * logs + (1 - theta) ** 2 * (logs - np.clip(logs, -rates.reach, rates.reach))
    g = rates.scale * theta * (g - generations * back)
    metric.scales[...] *= np.exp(g)
    change: Array = np.exp(g - g.mean())  # H and F keep their size in units of sigma
    return change


def pulse_renew(
    F: Array,
    H: Array,
    metric: Metric,
    path: Array,
    limits: Limits,
    *,
    threads: int = 0,
) -> None:
    """Set the axes of ``metric``, their sizes, gains and concentration, and ``path`` from rows of F and of H.

    The rows of F are multiplied by the new B^-1 in place.
    """
    k = metric.longs
    T, fourths = leading_axes(H, metric.axes[k:])
    metric.concentration[...] = np.maximum(limits.span * fourths, 1.0) ** 3
    metric.gains[k:] = np.maximum(T - limits.tau_short * metric.concentration, 0.0)
    stretched(F, metric.axes[k:], metric.gains[k:], 0.5, F)
    path[...] = F[k]
    F[k] *= limits.path_gain
    S, _ = leading_axes(F, metric.axes[:k])
    metric.gains[:k] = np.maximum(S - limits.tau_long, 0.0)
    metric.sizes[:k], metric.sizes[k:] = S, T


def leading_axes(rows: Array, axes: Array, *, threads: int = 0) -> tuple[Array, Array]:
    """Set ``axes`` to the leading eigenvectors of ``rows^T rows``, one per row.

    Return their eigenvalues, and the sum of the fourth powers of each eigenvector. The eigenvectors come from
    the smaller of ``rows rows^T`` and ``rows^T rows``. An eigenvalue lost to rounding gives a row of zeros,
    as do axes beyond the rank of the rows.
    """
    count, n = rows.shape
    found, wide = min(len(axes), count, n), count <= n
    sizes, fourths = np.zeros(len(axes)), np.zeros(len(axes))
    axes[found:] = 0.0
    if found == 0:
        return sizes, fourths
    gram = (rows @ rows.T if wide else rows.T @ rows).astype(np.float64)
    eigenvalues, vectors = np.linalg.eigh(gram)
    leading = eigenvalues[: -found - 1 : -1]
    lost = LOST * float(np.finfo(rows.dtype).eps) * float(eigenvalues[-1])
    kept = leading > max(SMALLEST, lost)
    directions = vectors[:, : -found - 1 : -1].T
    sizes[:found] = np.where(kept, leading, 0.0)
    if wide:
        scales = np.where(kept, 1 / np.sqrt(np.where(kept, leading, 1.0)), 0.0)
        np.matmul((scales[:, None] * directions).astype(rows.dtype), rows, out=axes[:found])
    else:
        axes[:found] = kept[:, None] * directions
    fourths[:found] = [float(np.sum(np.square(axis) ** 2)) for axis in axes[:found]]
    return sizes, fourths


def stretched(
    rows: Array, axes: Array, gains: Array, power: float, out: Array | None = None, *, threads: int = 0
) -> Array:
    """Return ``(I + U^T diag(gains) U)^power`` times each row, for orthonormal axes U.

    ``out`` may be ``rows`` itself.
    """
    factors = (1 + gains) ** power - 1
    total: Array = np.add(rows, ((rows @ axes.T) * factors).astype(rows.dtype) @ axes, out=out)
    return total


def add_squares(rows: Array, against: int, fade: float, total: Array, *, threads: int = 0) -> None:
    """Add +-q q^T of each row q, minus ``fade`` I, to the lower triangle of ``total``.

    The last ``against`` rows are subtracted. Entries above the diagonal do not change.
    """
    more, less = rows[: len(rows) - against], rows[len(rows) - against :]
    total += np.tril(more.T @ more)
    total -= np.tril(less.T @ less)
    total.flat[:: len(total) + 1] -= fade


def grow(change: Array, columns: Array, inverse: Array) -> None:
    """Multiply a matrix by I + G/2 from the right, and its inverse accordingly; set G to 0.

    Parameters
    ----------
    change : ndarray, (n, n)
        G, symmetric, of which the lower triangle is read.
    columns : ndarray, (n, n)
        The transposed matrix: each row holds one of its columns.
    inverse : ndarray, (n, n)
        Its inverse.
    """
    diagonal = change.reshape(-1)[:: len(change) + 1]
    change += change.T
    change /= 2
    diagonal /= 2
    columns += change @ columns
    diagonal += 1
    inverse[...] = np.linalg.solve(change, inverse)
    change[...] = 0
