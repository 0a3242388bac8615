"""dd-MA-ES and d-LR-ES: a diagonal, a matrix and a few quick directions. Ours, not the paper's.

    x = mean + sigma D A L z,    L = I + U (sqrt(1 + s) - 1) U^T

=======  ==================  ========  ================================================================
symbol   code                shape     meaning
=======  ==================  ========  ================================================================
D        ``scales``          (n,)      one step size for each coordinate, learned in O(n) evaluations
A        ``core``            (n, n)    full matrix, learned in O(n^2) evaluations; I in d-LR-ES
U        ``axes``            (k, n)    directions of the low-rank part F = D A U sqrt(s)
S        ``variances``       (k,)      what leads [F p_c d_i] in these directions; s = max(0, S - tau)
p_c      ``path``            (n,)      evolution path of d = L z, renewed quickly
p_A      ``core_path``       (n,)      evolution path of z for A
v_i      -                   (lam,)    active weights, see ``rank_weights.py``
q_i      -                   (lam, n)  L^-1 z_i: what is left of z_i where L explains nothing
kappa_j  -                   (n,)      (1 + C_jj (C^-1)_jj) / 2 with C = A A^T
=======  ==================  ========  ================================================================

Each part is a natural gradient step that holds the others fixed, F in the coordinates of x:

    D <- D exp(c_D g / (2 kappa^1.5)),   g_j = sum_i v_i a_ij b_ij + share (a_j b_j of p_sigma - h_j),
                                         a = A q, b = A^-T q, h its expectation
    A <- A (I + G/2),                    G = c_mu sum_i v_i q_i q_i^T + c_1 (q_A q_A^T - L^-2)
    F F^T <- the k leading axes of       (1 - c_1F - c_muF) F F^T + c_1F p_c p_c^T + c_muF sum_i w_i d_i d_i^T

g and G vanish where F explains a direction already, so the three do not fight. kappa is the variance
inflation factor of regression: 1 where A leaves a coordinate uncorrelated, huge where A has learned a rotated
function, and D then stands still; it is the diagonal of the Fisher matrix of D. F is carried over into the
coordinates of the new D and A, for a tilt by a tenth ruins an axis a thousandfold stretched. tau takes away
what random selection alone would leave in S.

After Ros and Hansen (2008: a diagonal alone), Akimoto and Hansen (2016, 2019: D with a low-rank part, D with
a full C damped by its condition), Beyer and Sendhoff (2017: MA-ES), Jastrebski and Arnold (2006: active
weights). docs/research.md has the measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.strategies.dlmma import RECENTRE, diagonal_rate
from lmma.strategies.es import ES, Batch, Transform
from lmma.strategies.lmma import CAP
from lmma.strategies.parts.dense_core import Core, FullCore, IdentityCore
from lmma.strategies.parts.linalg import centred
from lmma.strategies.parts.lowrank import leading_axes, shrunk, stretched
from lmma.strategies.parts.parameters import Parameters, RankParameters, constant
from lmma.strategies.parts.rank_weights import active_weights
from lmma.strategies.parts.recombination import Array, Indices, Selection, cumulate, default_popsize

# What each constant is worth, and how it was chosen: docs/research.md, "Constants".
SCALE_CAP = 0.2  # populations many times n: D of Rastrigin's function would follow every ripple
CAUTION = 1.5  # power of kappa; 1 is the Fisher matrix's, but A must undo what D does to a rotated function


def quickest(n: int, lam: int) -> float:
    """Return the largest c_sigma: 0.2 for default populations, up to 0.3 for larger ones."""
    return min(0.3, 0.2 * math.sqrt(lam / default_popsize(n)))


def step_damping(n: int, lam: int) -> float:
    """Return the damping of the step size: LM-MA-ES's 2 for few variables, 0.8 for many or many candidates.

    The squared length of a path of n numbers scatters like 1/sqrt(n): few variables need a calmer rule, many
    lose a quarter of the evaluations on the sphere by it, and large populations must not wait for it.
    """
    return min(2.0, max(0.8, 80 / n * default_popsize(n) / lam))


@dataclass(frozen=True, kw_only=True)
class DDMAParameters(Parameters):
    """The constants of dd-MA-ES and d-LR-ES; docs/research.md, "Constants", says how they were chosen."""

    c_sigma: float = constant(lambda p: min(1.1 * p.lam / p.n, quickest(p.n, p.lam)))
    d_sigma: float = constant(lambda p: step_damping(p.n, p.lam))
    c_scale: float = constant(lambda p: min(1.35 * diagonal_rate(p), SCALE_CAP))  # c_D
    path_share: float = 0.2
    k: int = 2
    tau: float = 3.0
    c_c_axes: float = constant(lambda p: min(10 / (p.n + 4), CAP))
    c_1_axes: float = constant(lambda p: min(2 / quick(p), CAP))  # c_1F
    c_mu_axes: float = constant(lambda p: min(2.6 * (p.mu_w - 2 + 1 / p.mu_w) / quick(p), CAP))  # c_muF
    c_c: float = constant(lambda p: 4 / (p.n + 4))
    c_1: float = constant(lambda p: RankParameters(p.n, p.lam, weights=p.weights).c_1)
    c_mu: float = constant(lambda p: RankParameters(p.n, p.lam, weights=p.weights, c_1=p.c_1).c_mu)

    def _check(self) -> None:
        if self.k < 1:
            raise ValueError(f"k must be at least 1, got {self.k}")
        self._set(k=min(self.k, self.n))


def quick(p: DDMAParameters) -> float:
    """Return what divides the rates of F: it has k n numbers to learn."""
    return p.n * (min(p.k, p.n) + 2) + p.mu_w


@final
class Decoded(Transform):
    """d = D A L z."""

    STATE = ("scales", "axes", "variances", "path", "core_path")

    def __init__(self, n: int, parameters: DDMAParameters, dtype: npt.DTypeLike, core: Core) -> None:
        self.parameters = parameters
        self.core = core
        self.scales = np.ones(n, dtype=dtype)
        self.axes = np.zeros((parameters.k, n), dtype=dtype)
        self.variances = np.zeros(parameters.k)
        self.path = np.zeros(n, dtype=dtype)
        self.core_path = np.zeros(n, dtype=dtype)

    def parts(self) -> dict[str, Core]:
        """Return A."""
        return {"core": self.core}

    @property
    def stretch(self) -> Array:
        """The variance along each axis beyond 1."""
        return np.maximum(self.variances - self.parameters.tau, 0.0)

    def sample(self, batch: Batch) -> None:
        """Draw z and set ``out`` to the candidates ``mean + step * d``."""
        batch.source.draw(batch.generation, batch.first, batch.z)
        out = self.apply(batch.z, out=batch.out)
        out *= np.asarray(batch.step, dtype=out.dtype)
        out += batch.mean

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return D A L z."""
        d = self.core.times(stretched(z, self.axes, self.stretch))
        return np.multiply(d, self.scales, out=out)

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of D A L times d."""
        return stretched(self.core.transposed_times(d * self.scales), self.axes, self.stretch)

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return D_j^2 (|A_j|^2 + sum_k s_k (A_j . u_k)^2) with A_j a row of A."""
        squares, along = self.core.rows_at(columns, self.axes)
        scales = self.scales[columns].astype(np.float64)
        return np.square(scales) * (squares + self.stretch @ np.square(along))

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Let D, A and F learn from one generation."""
        p, dtype, stretch = self.parameters, self.scales.dtype, self.stretch
        mu, valid, k = len(best.weights), len(best.order), p.k
        z = best.pick(best.sampled_z, valid)
        ranks = (active_weights(valid) if valid > 1 else np.zeros(valid)).astype(dtype)
        cumulate(self.core_path, p.c_c, best.mu_w, best.z_mean)
        rows = np.vstack((z, self.core_path, p_sigma, self.axes))  # q_i, q_A, q_sigma, U
        rows[:-k] = shrunk(rows[:-k], self.axes, stretch)
        images, duals = self.core.times(rows), self.core.transposed_solved(rows)
        explained = (stretch / (1 + stretch)).astype(dtype)  # I - U explained U^T = L^-2

        # D
        products = images * duals
        g = ranks @ products[:valid]
        g += p.path_share * (products[valid + 1] - 1 + explained @ products[-k:])
        g *= p.c_scale / 2 / ((1 + self.core.inflation) / 2) ** CAUTION
        self.scales *= np.exp(g)
        change = np.exp(g - g.mean())  # F keeps its size in units of sigma

        # F, to be carried over into the new coordinates
        cumulate(self.path, p.c_c_axes, best.mu_w, stretched(best.z_mean, self.axes, stretch))
        kept = np.sqrt((1 - p.c_1_axes - p.c_mu_axes) * self.variances)
        gains = np.sqrt(p.c_mu_axes * best.weights)
        steps = np.vstack((
            kept[:, None] * self.axes,
            gains[:, None] * stretched(z[:mu], self.axes, stretch),
            self.path,
        )).astype(dtype)  # fmt: skip
        steps = self.core.times(steps) / change

        # A; q_sigma has no part in it
        used = np.delete(np.arange(len(rows)), valid + 1)
        self.core.multiply(
            rows[used], images[used], duals[used],
            np.concatenate((self._core_gains(z, ranks), [p.c_1], self.fade * explained)), self.fade,
        )  # fmt: skip

        steps = self.core.solved(steps)
        self.path[...] = steps[-1]
        steps[-1] *= math.sqrt(p.c_1_axes)
        self.axes[...], self.variances[...] = leading_axes(steps, k)

    def _core_gains(self, z: Array, ranks: Array) -> Array:
        """Return c_mu v_i; negative ones scaled as if z_i had length sqrt(n), so that A stays regular."""
        c_mu, n = self.parameters.c_mu, len(self.scales)
        lengths2 = np.maximum(np.einsum("ij,ij->i", z, z), 1e-30)
        gains: Array = c_mu * np.where(ranks < 0, ranks * (n * self.against) / lengths2, ranks)
        return gains

    @property
    def against(self) -> float:
        """What negative weights count: less than 1 where many candidates would make A singular."""
        c_mu, n = self.parameters.c_mu, len(self.scales)
        return min(1.0, 1 / (2 * n * c_mu)) if c_mu > 0 else 0.0

    @property
    def fade(self) -> float:
        """What is taken from A so that it keeps its size where selection is random."""
        p = self.parameters
        return p.c_1 + p.c_mu * (1 - self.against)

    def balance(self, generation: int) -> float:
        """Scale D to geometric mean 1 now and then."""
        return centred(self.scales) if generation % RECENTRE == 0 else 1.0


class DecodedES(ES):
    """What the two strategies share: all but the core."""

    define = DDMAParameters
    parameters: DDMAParameters
    core: ClassVar[type[Core]]

    def _make_transform(self) -> Decoded:
        return Decoded(self.n, self.parameters, self.dtype, self.core(self.n, self.dtype))


@final
class DDMAES(DecodedES):
    """MA-ES decoded by a diagonal and helped by two quick directions, O(n^2) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`DDMAParameters`.

    Examples
    --------
    Scales of coordinates are learned in O(n) evaluations, though the matrix has n^2 numbers:

    >>> es = lmma.DDMAES(np.ones(20), 1.0, rng=1)
    >>> while es.best_fun > 1e-9:
    ...     es.tell(np.square(es.ask()) @ np.logspace(0, 6, 20))
    >>> es.evaluations < 6_000
    True

    References
    ----------
    This library, docs/research.md. Akimoto and Hansen, *Diagonal acceleration for covariance matrix
    adaptation evolution strategies*, Evolutionary Computation 28 (2020).
    """

    name = "dd-ma-es"
    core = FullCore
    rows = staticmethod(lambda n, popsize: 3 * n + 9 * popsize + 30)  # A, its inverse, candidates


@final
class DLRES(DecodedES):
    """A diagonal and two quick directions, O(n) per sample: for what dd-MA-ES's matrix is too large for.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`DDMAParameters`.

    Examples
    --------
    >>> es = lmma.DLRES(np.zeros(1000), 1.0, rng=1, k=3)
    >>> es.transform.axes.shape
    (3, 1000)

    References
    ----------
    This library, docs/research.md. Akimoto and Hansen, *Projection-based restricted covariance matrix
    adaptation for high dimension*, GECCO 2016.
    """

    name = "d-lr-es"
    core = IdentityCore
    rows = staticmethod(lambda n, popsize: 8 * popsize + 30)  # several rows for each candidate
