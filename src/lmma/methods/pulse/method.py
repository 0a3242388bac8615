"""Pulse: a diagonal, a few contracting and expanding directions, and optionally a full matrix. New in lmma.

    x = mean + sigma D A B L z,    B = (I + V^T h V)^(-1/2),    L = (I + U^T s U)^(1/2)

=======  ====================  ========  ================================================================
symbol   code                  shape     meaning
=======  ====================  ========  ================================================================
D        ``scales``            (n,)      one step size for each coordinate, learned in O(n) evaluations
A        ``core``              (n, n)    full matrix, learned in O(n^2) evaluations; I where memory is limited
V        ``short_axes``        (k_H, n)  directions in which steps are contracted, orthonormal
T        ``short_sizes``       (k_H,)    eigenvalues of H H^T in these directions
rho      ``concentration``     (k_H,)    large if an axis lies along a few coordinates, which D should learn
h        ``contraction``       (k_H,)    max(0, T - tau_H rho)
U        ``long_axes``         (k_F, n)  directions in which steps are expanded, orthonormal
S        ``long_sizes``        (k_F,)    eigenvalues of F F^T in these directions
s        ``expansion``         (k_F,)    max(0, S - tau_F)
p_c      ``path``              (n,)      evolution path of L z, with a short memory
p_A      ``core.path``         (n,)      evolution path of z for A
w_i      ``weights``           (mu,)     weights of the best half, positive
v_i      -                     (lam,)    active weights of all: ``active_weights``
W_i      -                     (lam,)    weights of the mean: w_i + ``against`` min(v_i, 0)
theta    -                     float     factor of D's rate: small if axes contract across coordinates
=======  ====================  ========  ================================================================

The model is a covariance (D^-1 A^-T A^-1 D^-1 + H H^T)^-1 with long directions F F^T added. Stiff directions
are summands of the *precision*, where one bad step reveals them; long ones are summands of the covariance,
where one good path reveals them. Each update is a natural gradient step that holds the other parts fixed in
coordinates of x. With q = L^-1 z, a = B q, b = B^-1 q, d = L z for every candidate:

    D <- D exp(c_D theta g / 2),   g_j = sum_i v_i (A a_i)_j (A^-T a_i)_j + share (that of p_sigma - e_j)
    A <- A (I + G/2),              G = c_mu sum_i v_i a_i a_i^T + c_1 (a_A a_A^T - B L^-2 B)
    H H^T <- the k_H leading axes of H H^T - c_H sum_i v_i b_i b_i^T
    F F^T <- the k_F leading axes of (1 - c_1F) F F^T + c_1F p_c p_c^T + c_muF sum_i v_i d_i d_i^T

with e the expectation of the preceding term. In the sums of H and F, rows with negative sign only act on the
existing axes. g is damped by the correlations in A (kappa^1.5, because the matrix must compensate for D on a
rotated function) and reduced for coordinates already covered by an axis. tau_H and tau_F subtract the values
of T and S under random selection. The metric learns every ``period`` generations from all rows.

After Ros and Hansen (2008: a diagonal alone), Akimoto and Hansen (2016, 2019: D with a low-rank part, D with
a full C damped by its condition), Beyer and Sendhoff (2017: MA-ES), Jastrebski and Arnold (2006: active
weights), Arnold (2006: negative weights for the mean). docs/research.md has the measurements.
"""

from __future__ import annotations

import copy
import math
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.methods.ask_tell import Strategy
from lmma.methods.dlmma import RECENTRE
from lmma.methods.es import ES, Transform
from lmma.methods.pulse.batching import Collected, Ranked
from lmma.methods.pulse.core import Core, FullCore, IdentityCore
from lmma.methods.pulse.noise_stability import normalise_lengths, normalise_size, pace
from lmma.methods.pulse.parameters import (
    DAMPING_POWER,
    PulseFullParameters,
    PulseParameters,
    learning_rows,
    mean_weights,
)
from lmma.numerics.linalg import Factors, divide_by_geometric_mean, padded_rows
from lmma.numerics.recombination import (
    Array,
    Indices,
    Selection,
    cumulate_all,
    weighted_mean,
)
from lmma.numerics.sampling import Batch, mirror_rows
from lmma.numerics.state import FINITE, NOT_NEGATIVE, Declared

if TYPE_CHECKING:
    from lmma.layers.layer import Told


@final
class PulseTransform(Transform):
    """Transform d = D A B L z; the module explains the factors and their updates."""

    STATE: ClassVar[Declared] = {
        "scales": NOT_NEGATIVE, "paths_and_axes": FINITE, "sizes": FINITE, "gains": FINITE, "cross": FINITE,
        "concentration": FINITE,
    }  # fmt: skip

    def __init__(self, n: int, parameters: PulseParameters, dtype: npt.DTypeLike, core: Core) -> None:
        p = self.parameters = parameters
        self.core = core
        learns = isinstance(core, FullCore)
        self.collected = Collected(p.period, p.lam, n, dtype, p.weights, images=learns)
        self.images: Array = np.zeros((p.lam if learns else 0, n), dtype=dtype)  # A B L z of the last sample
        self.scales: Array = np.ones(n, dtype=dtype)
        self.paths_and_axes: Array = padded_rows(2 + p.k_long + p.k_short, n, dtype)  # p_sigma, p_c, U, V
        self.sizes: Array = np.zeros(p.k_long + p.k_short)  # S, then T
        self.gains: Array = np.zeros(p.k_long + p.k_short)  # s, then h
        self.cross: Array = np.zeros((p.k_short, p.k_long))  # V U^T
        self.concentration: Array = np.ones(p.k_short)
        self._learned: kernels.Learned | None = None  # buffers for reuse
        self._rates: dict[int, tuple[kernels.Rates, kernels.Limits]] = {}  # by number of generations
        self.pace = 1.0  # factor of the steps of D, below 1 under noise
        self.origin, self.unit = np.zeros(n, dtype=dtype), np.ones(n, dtype=dtype)

    def parts(self) -> dict[str, object]:
        """Return A and the collected generations, by name."""
        return {"core": self.core, "collected": self.collected}

    @property
    def path(self) -> Array:
        """Evolution path p_c."""
        row: Array = self.paths_and_axes[1]
        return row

    @property
    def axes(self) -> Array:
        """Rows of U followed by rows of V."""
        return self.paths_and_axes[2:]

    @property
    def long_axes(self) -> Array:
        """U: directions in which steps are expanded."""
        return self.axes[: self.parameters.k_long]

    @property
    def short_axes(self) -> Array:
        """V: directions in which steps are contracted."""
        return self.axes[self.parameters.k_long :]

    @property
    def long_sizes(self) -> Array:
        """S: size of the rows of F along each long axis."""
        return self.sizes[: self.parameters.k_long]

    @property
    def short_sizes(self) -> Array:
        """T: size of the rows of H along each short axis."""
        return self.sizes[self.parameters.k_long :]

    @property
    def expansion(self) -> Array:
        """s: variance in excess of 1 along each long axis."""
        return self.gains[: self.parameters.k_long]

    def without_sample(self) -> PulseTransform:
        """Return a copy that does not hold the last sample."""
        stripped = copy.copy(self)
        stripped._learned, stripped.core = None, self.core.without_sample()
        stripped.collected = self.collected.emptied()
        stripped.images = self.images[:0]
        return stripped

    @property
    def contraction(self) -> Array:
        """h: precision in excess of 1 along each short axis."""
        return self.gains[self.parameters.k_long :]

    @property
    def metric(self) -> kernels.Metric:
        """D, L and B in the form required by the kernels."""
        return kernels.Metric(
            self.scales, self.axes, self.parameters.k_long, self.sizes, self.gains, self.concentration
        )

    def expanded(self, rows: Array, power: float = 0.5) -> Array:
        """Multiply each row by L, or by L^-1 with the power -1/2."""
        return kernels.stretched(rows, self.long_axes, self.expansion, power, threads=self.threads)

    def contracted(self, rows: Array, power: float = -0.5) -> Array:
        """Multiply each row by B, or by B^-1 with the power 1/2."""
        return kernels.stretched(rows, self.short_axes, self.contraction, power, threads=self.threads)

    def sample(self, batch: Batch) -> None:
        """Draw z and set ``out`` to the candidates ``mean + step * d``."""
        source, generation, mean, step, out, z, _, first = batch
        steps, place = self.scales * step, (generation, first)
        if not isinstance(self.core, FullCore):
            kernels.pulse_sample(
                source.key, place, self.metric, self.cross, mean, steps, z, out, threads=self.threads
            )
            return
        kernels.pulse_sample(
            source.key, place, self.metric, self.cross, self.origin, self.unit, z, out,
            threads=self.threads,
        )  # fmt: skip
        images = np.matmul(out, self.core.matrix.T, out=self.images[: len(out)])
        np.multiply(images, steps, out=out)
        out += mean

    def paired(self, count: int) -> None:
        """Add the negative of each image."""
        mirror_rows(self.images)

    def replaced(self, rows: Indices, z: Array) -> None:
        """Recompute the images of the replaced candidates."""
        if len(self.images):
            self.images[rows] = self.core.times(self.contracted(self.expanded(z)))

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return D A B L z."""
        return np.multiply(self.core.times(self.contracted(self.expanded(z))), self.scales, out=out)

    def mean_direction(self, order: Indices, weights: Array, z_mean: Array) -> Array:
        """Return D A B L z_mean, from the images if they are stored."""
        if not len(self.images):
            return self.apply(z_mean)
        direction = weighted_mean(weights, order, self.images, self.threads)
        direction *= self.scales
        return direction

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of D A B L times d."""
        return self.expanded(self.contracted(self.core.transposed_times(d * self.scales)))

    def solve(self, d: Array) -> Array:
        """Return z with D A B L z = d."""
        return self.expanded(self.contracted(self.core.solved(d / self.scales), 0.5), -0.5)

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return D_j^2 A_j B L^2 B A_j^T at ``columns``, with A_j a row of A."""
        h, s = self.contraction, self.expansion
        squares, short = self.core.rows_at(columns, self.short_axes)
        _, long = self.core.rows_at(columns, self.contracted(self.long_axes))
        left = squares - (h / (1 + h)) @ np.square(short) + s @ np.square(long)
        return np.square(self.scales[columns].astype(np.float64)) * np.maximum(left, 1e-30)

    def factors(self) -> Factors:
        """Return D, A and the axes of B and L."""
        matrix = self.core.matrix if isinstance(self.core, FullCore) else None
        return Factors(diagonal=self.scales, matrix=matrix, rows=self.axes[self.gains > 0])

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Collect one generation; update paths, D, A, H and F every ``period`` generations."""
        if len(self.scales) == 1:
            return  # only sigma is learned
        ranked = self.collected.add(best, self.images if len(self.images) else None)
        if ranked is not None:
            self._learn(ranked, p_sigma)

    def _learn(self, ranked: Ranked, p_sigma: Array) -> None:
        p, z, t = self.parameters, ranked.z, ranked.ranks.generations
        metric, self.paths_and_axes[0] = self.metric, p_sigma
        self.core.update_path(ranked.steps, p.c_c)
        path = self.path
        path += self.expanded(cumulate_all(path, p.c_c_long, ranked.steps))
        if t not in self._rates:
            self._rates[t] = p.rates(t), p.limits(t)
        rates, limits = self._rates[t]
        if self.pace < 1.0:
            rates = rates._replace(scale=self.pace * rates.scale)
        through_core = self.core.through_core(z, ranked.images, self.paths_and_axes, metric)
        self._learned = kernels.pulse_learn(
            z,
            self.paths_and_axes[:2],
            ranked.ranks,
            metric,
            rates,
            through_core,
            self._learned,
            threads=self.threads,
        )
        F, H, G = self._learned
        if through_core is not None:
            rows, used = len(z) + 1, np.count_nonzero(self.gains)
            self.core.learn(G[: rows + used], ranked.ranks.worse, rates.fade, rows + len(self.gains))
            F, H = self.core.solved(F), self.core.transposed_times(H)

        kernels.pulse_renew(F, H, metric, path, limits, threads=self.threads)
        self.cross[...] = self.short_axes @ self.long_axes.T

    def balance(self, generation: int) -> float:
        """Scale D to geometric mean 1, every RECENTRE generations."""
        return divide_by_geometric_mean(self.scales) if generation % RECENTRE == 0 else 1.0


@lru_cache(16)
def weights_of(weights: bytes, valid: int, lam: int, against: float) -> tuple[Array, Array, float]:
    """Return w_i (float64) of the ``valid`` candidates, summing to 1, all W_i, and mu_e."""
    selected = np.frombuffer(weights)[:valid]
    selected = selected / selected.sum()
    total = mean_weights(selected, lam, against)
    return selected, total, 1 / float(total @ total)


class PulseES(ES):
    """Base class of both variants, which differ in the core."""

    define = PulseParameters
    parameters: PulseParameters
    transform: PulseTransform
    core: ClassVar[type[Core]]

    def _make_transform(self) -> PulseTransform:
        return PulseTransform(
            self.n, self.parameters, self.dtype, self.core(self.n, DAMPING_POWER, self.dtype)
        )

    def _learn(self, told: Told) -> None:
        self.transform.pace = pace(told.rate)
        if told.rate != 1.0 and len(self.transform.images) == self.popsize:
            normalise_lengths(self.z, self.transform.images)
        super()._learn(told)

    def _take_metric(self, root: npt.NDArray[np.float64]) -> None:
        """Set A, or D without a matrix; the axes are empty at the beginning."""
        transform = self.transform
        if isinstance(transform.core, FullCore):
            transform.core.set_matrix(root if root.ndim == 2 else np.diag(root))
        else:
            lengths = root if root.ndim == 1 else np.sqrt(np.square(root).sum(axis=1))
            mean = math.exp(float(np.mean(np.log(lengths))))
            transform.scales[...] = lengths / mean
            self.sigma *= mean

    def stabilise(self, rate: float) -> None:
        """Move the size of A B L into sigma, at the learning rate ``rate``."""
        self.sigma *= normalise_size(self.transform) ** rate

    def _select(self, told: Told) -> Selection:
        """Return the ranked generation; its mean includes negative weights.

        Candidates without a value rank last: the mean moves away from points where evaluations fail. If
        constraints are handled by ranks alone, negative weights are not used: they would repel the mean from
        the boundary of the feasible region, which it must reach.
        """
        order, values, integers = told.order, told.ranked, self.settings.integers
        p = self.parameters
        weights, total, mu_e = weights_of(p.weights.tobytes(), len(order), self.popsize, p.against)
        if len(order) < self.popsize:
            order = np.concatenate((order, np.setdiff1d(np.arange(self.popsize), order)))
        if told.by_ranks:
            z_mean = weighted_mean(weights, order, self.z, self.source.threads)
            d_mean = self.transform.mean_direction(order, weights, z_mean)
            mu_e = 1 / float(weights @ weights)
            return Selection(order, values, weights, mu_e, z_mean, d_mean, self.z, None, self.source.threads)
        z_mean = weighted_mean(total, order, self.z, self.source.threads)
        d_mean = self.parameters.c_m * self.transform.mean_direction(order, total, z_mean)
        if integers is not None:  # integers change in jumps: negative weights are not informative
            columns = integers.columns
            better = weighted_mean(weights, order, self.z, self.source.threads)
            d_mean[columns] = self.transform.mean_direction(order, weights, better)[columns]
        return Selection(order, values, weights, mu_e, z_mean, d_mean, self.z, None, self.source.threads)


@final
class PulseMethod(PulseES):
    """Pulse without a full matrix."""

    name = "pulse"
    core = IdentityCore
    rows = staticmethod(lambda n, popsize: learning_rows(n, popsize) + 2 * popsize)


class Pulse(Strategy):
    """Pulse: a diagonal, contracting and expanding directions, O(n log n) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`PulseParameters`.

    Examples
    --------
    One stiff direction across all coordinates is found in O(n) evaluations:

    >>> stiff = np.ones(50) / np.sqrt(50)
    >>> es = lmma.Pulse(np.ones(50), 1.0, rng=1)
    >>> while es.best_fun > 1e-9:
    ...     X = es.ask()
    ...     es.tell(np.square(X).sum(axis=1) + 1e6 * np.square(X @ stiff))
    >>> es.evaluations < 20_000
    True

    References
    ----------
    This library, docs/research.md. Akimoto and Hansen, *Projection-based restricted covariance matrix
    adaptation for high dimension*, GECCO 2016.
    """

    METHOD = PulseMethod
    method: PulseMethod


@final
class PulseFullMethod(PulseES):
    """Pulse with a full matrix A, O(n^2) per sample."""

    name = "pulse-full"
    define = PulseFullParameters
    parameters: PulseFullParameters
    core = FullCore
    # Learning also needs images, duals and rows of G
    rows = staticmethod(lambda n, popsize: 6 * n + 3 * learning_rows(n, popsize))


class PulseFull(Strategy):
    """Pulse with a full matrix, O(n^2) per sample: fewest evaluations, for up to a few hundred variables.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`PulseFullParameters`.

    Examples
    --------
    Scales of coordinates are learned in O(n) evaluations, although the matrix has n^2 numbers:

    >>> es = lmma.PulseFull(np.ones(20), 1.0, rng=1)
    >>> while es.best_fun > 1e-9:
    ...     es.tell(np.square(es.ask()) @ np.logspace(0, 6, 20))
    >>> es.evaluations < 6_000
    True

    References
    ----------
    This library, docs/research.md. Akimoto and Hansen, *Diagonal acceleration for covariance matrix
    adaptation evolution strategies*, Evolutionary Computation 28 (2020).
    """

    METHOD = PulseFullMethod
    method: PulseFullMethod
