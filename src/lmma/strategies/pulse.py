"""Pulse: a diagonal, a few directions that contract and a few that expand, and a matrix where it pays. Ours.

    x = mean + sigma D A B L z,    B = (I + V^T h V)^(-1/2),    L = (I + U^T s U)^(1/2)

=======  ====================  ========  ================================================================
symbol   code                  shape     meaning
=======  ====================  ========  ================================================================
D        ``scales``            (n,)      one step size for each coordinate, learned in O(n) evaluations
A        ``core``              (n, n)    full matrix, learned in O(n^2) evaluations; I where memory is limited
V        ``short_axes``        (k_H, n)  directions in which steps are contracted, orthonormal
T        ``short_sizes``       (k_H,)    what leads the rows of H in these directions
rho      ``concentration``     (k_H,)    large where an axis lies along a few coordinates: that is D's work
h        ``contraction``       (k_H,)    max(0, T - tau_H rho)
U        ``long_axes``         (k_F, n)  directions in which steps are expanded, orthonormal
S        ``long_sizes``        (k_F,)    what leads the rows of F in these directions
s        ``expansion``         (k_F,)    max(0, S - tau_F)
p_c      ``path``              (n,)      evolution path of L z, renewed quickly
p_A      ``core.path``         (n,)      evolution path of z for A
w_i      ``weights``           (mu,)     weights of the best half, positive
v_i      -                     (lam,)    active weights of all, see ``rank_weights.py``
W_i      -                     (lam,)    weights of the mean: w_i + min(v_i, 0)/2
theta    -                     float     how freely D moves: less where axes contract across coordinates
=======  ====================  ========  ================================================================

The model is a covariance (D^-1 A^-T A^-1 D^-1 + H H^T)^-1 with long directions F F^T added: stiff directions
are summands of the *precision*, where one bad step shows them, long ones of the covariance, where one good
path shows them. Each part is a natural gradient step that holds the others fixed in coordinates of x. With
q = L^-1 z, a = B q, b = B^-1 q, d = L z for every candidate:

    D <- D exp(c_D theta g / 2),   g_j = sum_i v_i (A a_i)_j (A^-T a_i)_j + share (that of p_sigma - e_j)
    A <- A (I + G/2),              G = c_mu sum_i v_i a_i a_i^T + c_1 (a_A a_A^T - B L^-2 B)
    H H^T <- the k_H leading axes of H H^T - c_H sum_i v_i b_i b_i^T
    F F^T <- the k_F leading axes of (1 - c_1F) F F^T + c_1F p_c p_c^T + c_muF sum_i v_i d_i d_i^T

with e the expectation of what precedes it; in the sums of H and F the rows that take away are applied to the
axes that are there. g is damped by the correlations in A (kappa^1.5, as the matrix must undo what D does to a
rotated function) and held back where an axis has taken a coordinate over. tau_H and tau_F take away what
random selection alone would leave in T and S. The metric learns every ``period`` generations from all rows.

After Ros and Hansen (2008: a diagonal alone), Akimoto and Hansen (2016, 2019: D with a low-rank part, D with
a full C damped by its condition), Beyer and Sendhoff (2017: MA-ES), Jastrebski and Arnold (2006: active
weights), Arnold (2006: negative weights for the mean). docs/research.md has the measurements.
"""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.strategies.dlmma import RECENTRE
from lmma.strategies.es import ES, Batch, Transform
from lmma.strategies.parts.aligned import spaced
from lmma.strategies.parts.collected import Collected, Ranked
from lmma.strategies.parts.dense_core import Core, FullCore, IdentityCore
from lmma.strategies.parts.linalg import centred
from lmma.strategies.parts.pairs import spread_pairs
from lmma.strategies.parts.recombination import (
    Array,
    Indices,
    Selection,
    cumulate_all,
    weighted_mean,
)
from lmma.strategies.pulse_parameters import CAUTION, PulseParameters, learning_rows, mean_weights


@final
class Pulsing(Transform):
    """d = D A B L z."""

    STATE = ("scales", "few", "sizes", "gains", "cross", "concentration")

    def __init__(self, n: int, parameters: PulseParameters, dtype: npt.DTypeLike, core: Core) -> None:
        p = self.parameters = parameters
        self.core = core
        learns = isinstance(core, FullCore)
        self.collected = Collected(p.period, p.lam, n, dtype, p.weights, images=learns)
        self.images: Array = np.zeros((p.lam if learns else 0, n), dtype=dtype)  # A B L z of the last sample
        self.scales: Array = np.ones(n, dtype=dtype)
        self.few: Array = spaced(2 + p.k_long + p.k_short, n, dtype)  # p_sigma, p_c and the axes
        self.sizes: Array = np.zeros(p.k_long + p.k_short)  # S, then T
        self.gains: Array = np.zeros(p.k_long + p.k_short)  # s, then h
        self.cross: Array = np.zeros((p.k_short, p.k_long))  # V U^T
        self.concentration: Array = np.ones(p.k_short)
        self._learned: kernels.Learned | None = None  # arrays to be used again
        self._rates: dict[int, tuple[kernels.Rates, kernels.Limits]] = {}  # by generations learned from
        self.pace = 1.0  # share of its steps that D takes, less than 1 under noise
        self.origin, self.unit = np.zeros(n, dtype=dtype), np.ones(n, dtype=dtype)

    def parts(self) -> dict[str, object]:
        """Return A, and what waits to be learned from."""
        return {"core": self.core, "collected": self.collected}

    @property
    def path(self) -> Array:
        """p_c."""
        row: Array = self.few[1]
        return row

    @property
    def axes(self) -> Array:
        """U, then V."""
        return self.few[2:]

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
        """S: what leads the rows of F along each long axis."""
        return self.sizes[: self.parameters.k_long]

    @property
    def short_sizes(self) -> Array:
        """T: what leads the rows of H along each short axis."""
        return self.sizes[self.parameters.k_long :]

    @property
    def expansion(self) -> Array:
        """s: the variance along each long axis beyond 1."""
        return self.gains[: self.parameters.k_long]

    def at_rest(self) -> Pulsing:
        """Return a copy without the rows that were drawn last."""
        resting = copy.copy(self)
        resting._learned, resting.core = None, self.core.at_rest()
        resting.collected = self.collected.emptied()
        resting.images = self.images[:0]
        return resting

    @property
    def contraction(self) -> Array:
        """h: the precision along each short axis beyond 1."""
        return self.gains[self.parameters.k_long :]

    @property
    def metric(self) -> kernels.Metric:
        """D, L and B as the kernels take them."""
        return kernels.Metric(
            self.scales, self.axes, self.parameters.k_long, self.sizes, self.gains, self.concentration
        )

    def expanded(self, rows: Array, power: float = 0.5) -> Array:
        """Return L of each row; L^-1 with the power -1/2."""
        return kernels.stretched(rows, self.long_axes, self.expansion, power, threads=self.threads)

    def contracted(self, rows: Array, power: float = -0.5) -> Array:
        """Return B of each row; B^-1 with the power 1/2."""
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
        """Give each image its opposite."""
        spread_pairs(self.images)

    def replaced(self, rows: Indices, z: Array) -> None:
        """Multiply the new z."""
        if len(self.images):
            self.images[rows] = self.core.times(self.contracted(self.expanded(z)))

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return D A B L z."""
        return np.multiply(self.core.times(self.contracted(self.expanded(z))), self.scales, out=out)

    def mean_direction(self, order: Indices, weights: Array, z_mean: Array) -> Array:
        """Return D A B L z_mean, by way of the images where there are any."""
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
        """Return D_j^2 A_j B L^2 B A_j^T with A_j a row of A."""
        h, s = self.contraction, self.expansion
        squares, short = self.core.rows_at(columns, self.short_axes)
        _, long = self.core.rows_at(columns, self.contracted(self.long_axes))
        left = squares - (h / (1 + h)) @ np.square(short) + s @ np.square(long)
        return np.square(self.scales[columns].astype(np.float64)) * np.maximum(left, 1e-30)

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Let paths, D, A, H and F learn where enough generations have been collected."""
        if len(self.scales) == 1:
            return  # sigma is all there is
        ranked = self.collected.add(best, self.images if len(self.images) else None)
        if ranked is not None:
            self._learn(ranked, p_sigma)

    def _learn(self, ranked: Ranked, p_sigma: Array) -> None:
        p, z, t = self.parameters, ranked.z, ranked.ranks.generations
        metric, self.few[0] = self.metric, p_sigma
        self.core.follow(ranked.steps, p.c_c)
        path = self.path
        path += self.expanded(cumulate_all(path, p.c_c_long, ranked.steps))
        if t not in self._rates:
            self._rates[t] = p.rates(t), p.limits(t)
        rates, limits = self._rates[t]
        if self.pace < 1.0:
            rates = rates._replace(scale=self.pace * rates.scale)
        turns = self.core.turns(z, ranked.images, self.few, metric)
        self._learned = kernels.pulse_learn(
            z, self.few[:2], ranked.ranks, metric, rates, turns, self._learned, threads=self.threads
        )
        F, H, G = self._learned
        if turns is not None:
            rows, used = len(z) + 1, np.count_nonzero(self.gains)
            self.core.learn(G[: rows + used], ranked.ranks.worse, rates.fade, rows + len(self.gains))
            F, H = self.core.solved(F), self.core.transposed_times(H)

        kernels.pulse_renew(F, H, metric, path, limits, threads=self.threads)
        self.cross[...] = self.short_axes @ self.long_axes.T

    def balance(self, generation: int) -> float:
        """Scale D to geometric mean 1 now and then."""
        return centred(self.scales) if generation % RECENTRE == 0 else 1.0


@lru_cache(16)
def weights_of(weights: bytes, valid: int, lam: int) -> tuple[Array, Array, float]:
    """Return w_i (float64) of the ``valid`` candidates that have a value, summing to 1, all W_i, and mu_e."""
    selected = np.frombuffer(weights)[:valid]
    selected = selected / selected.sum()
    total = mean_weights(selected, lam)
    return selected, total, 1 / float(total @ total)


class PulsingES(ES):
    """What the two forms share: all but the core."""

    define = PulseParameters
    parameters: PulseParameters
    transform: Pulsing
    core: ClassVar[type[Core]]

    def _make_transform(self) -> Pulsing:
        return Pulsing(self.n, self.parameters, self.dtype, self.core(self.n, CAUTION, self.dtype))

    def _metric_to_steady(self) -> Pulsing:
        return self.transform

    def _select(self, order: Indices, values: Array) -> Selection:
        """Return the ranked generation, its mean taken with negative weights too.

        Candidates without a value rank last: the mean moves away from where evaluations fail. Where ranks
        alone say what is feasible, the worse half lies beyond an edge that the mean must reach, and not flee.
        """
        weights, total, mu_e = weights_of(self.parameters.weights.tobytes(), len(order), self.popsize)
        if len(order) < self.popsize:
            order = np.concatenate((order, np.setdiff1d(np.arange(self.popsize), order)))
        if self._by_ranks_alone:
            z_mean = weighted_mean(weights, order, self.z, self.threads)
            d_mean = self.transform.mean_direction(order, weights, z_mean)
            mu_e = 1 / float(weights @ weights)
            return Selection(order, values, weights, mu_e, z_mean, d_mean, self.z, None, self.threads)
        z_mean = weighted_mean(total, order, self.z, self.threads)
        d_mean = self.parameters.c_m * self.transform.mean_direction(order, total, z_mean)
        if self.integers is not None:  # they jump: to be far from what is bad says little of where to go
            columns = self.integers.columns
            better = weighted_mean(weights, order, self.z, self.threads)
            d_mean[columns] = self.transform.mean_direction(order, weights, better)[columns]
        return Selection(order, values, weights, mu_e, z_mean, d_mean, self.z, None, self.threads)


@final
class Pulse(PulsingES):
    """A diagonal, contracting and expanding directions, O(n log n) per sample.

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

    name = "pulse"
    core = IdentityCore
    rows = staticmethod(lambda n, popsize: learning_rows(n, popsize) + 2 * popsize)


@final
class PulseFull(PulsingES):
    """Pulse with a full matrix, O(n^2) per sample: the fewest evaluations of all, for up to some hundred.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`PulseParameters`.

    Examples
    --------
    Scales of coordinates are learned in O(n) evaluations, though the matrix has n^2 numbers:

    >>> es = lmma.PulseFull(np.ones(20), 1.0, rng=1)
    >>> while es.best_fun > 1e-9:
    ...     es.tell(np.square(es.ask()) @ np.logspace(0, 6, 20))
    >>> es.evaluations < 4_000
    True

    References
    ----------
    This library, docs/research.md. Akimoto and Hansen, *Diagonal acceleration for covariance matrix
    adaptation evolution strategies*, Evolutionary Computation 28 (2020).
    """

    name = "pulse-full"
    core = FullCore
    rows = staticmethod(
        lambda n, popsize: 6 * n + 3 * learning_rows(n, popsize)
    )  # and images, duals, rows of G
