"""The constants of pulse: numbers of axes, rates and thresholds; ``method.py`` explains the symbols."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmma import kernels
from lmma.methods.dlmma import diagonal_rate
from lmma.methods.lmma import CAP
from lmma.numerics.parameters import Parameters, RankParameters, constant, derived, size_given
from lmma.numerics.recombination import Array, active_weights
from lmma.numerics.stepsize import damping_for_population

# Effect and choice of each constant: docs/research.md, "Constants".
DAMPING_POWER = (
    1.5  # of kappa; 1 by the Fisher matrix, more because A must compensate for D on rotated functions
)
AGAINST = 0.5  # factor of negative weights in the mean, for many variables
SPAN = 16  # an axis along fewer coordinates than about a third of this is left to D
LOG_SCALE_LIMIT = 6.0  # larger log D is reduced if axes contract across coordinates
MAX_HELD = 2**23  # upper limit on numbers collected for learning, 64 MB


def share(p: PulseParameters) -> float:
    """Return Lam, the ratio of the population for which the constants were chosen to this one."""
    return (4 + math.floor(3 * math.log(p.n))) / p.lam


def axes(n: int) -> int:
    """Return the number of learned directions, O(log n)."""
    return max(0, min(n - 1, int(3.3 * math.log(n))))


def matrix_speed(n: int) -> float:
    """Return the factor of the matrix's rate: up to 2 for few variables, where it learns instead of D."""
    return min(2.0, max(1.0, 20 / n))


def default_period(n: int, lam: int) -> int:
    """Return the number of generations per update of the metric: 4, or fewer for large populations."""
    return max(1, min(4, int(1.3 * n / lam), MAX_HELD // (n * lam)))


def learning_rows(n: int, lam: int) -> int:
    """Return the number of rows of n numbers stored for learning: collected z, current z, H and F."""
    return 2 * default_period(n, lam) * lam + 4 * axes(n) + lam + 16


def mean_weights(weights: Array, count: int, against: float) -> Array:
    """Return W_i for ``count`` ranked candidates; ``against`` scales the weights of the worse half."""
    total: Array = against * np.minimum(active_weights(count), 0.0)
    total[: len(weights)] += weights
    return total


@dataclass(frozen=True, kw_only=True)
class PulseParameters(Parameters):
    """The constants of pulse; docs/research.md, "Constants", explains their choice."""

    against: float = AGAINST
    mu_e: float = derived(lambda p: 1 / float(np.sum(np.square(mean_weights(p.weights, p.lam, p.against)))))
    c_m: float = constant(lambda p: 1 + 0.2 * min(1.0, share(p) ** 2))
    c_sigma: float = constant(lambda p: min(1.1 * p.lam / p.n, max(0.2, min(0.3, 0.2 / math.sqrt(share(p))))))
    d_sigma: float = constant(lambda p: min(2.0, max(0.8, 40 / p.n * share(p))))
    population_damping: float = derived(lambda p: damping_for_population(p.mu_e, p.n))
    c_scale: float = constant(lambda p: min(2 * diagonal_rate(p), 0.2))  # c_D
    path_share: float = 0.2
    pull: float = 0.003
    k_long: int = constant(lambda p: axes(p.n))  # k_F
    tau_long: float = 5.0  # tau_F
    c_c_long: float = constant(lambda p: min(10 / (p.n + 4), 0.2))
    c_1_long: float = constant(lambda p: long_rates(p)[0])  # c_1F
    c_mu_long: float = constant(lambda p: long_rates(p)[1])  # c_muF
    k_short: int = constant(lambda p: axes(p.n))  # k_H
    tau_short: float = 1.6  # tau_H
    c_short: float = constant(lambda p: min((p.mu_w - 2 + 1 / p.mu_w) / (4 * p.n + p.mu_w), CAP))  # c_H
    c_c: float = constant(lambda p: 4 / (p.n + 4))
    c_1: float = constant(lambda p: 1.5 * RankParameters(p.n, p.lam, weights=p.weights).c_1)
    c_mu: float = constant(lambda p: min(1.5 * RankParameters(p.n, p.lam, weights=p.weights).c_mu, CAP))
    period: int = constant(lambda p: default_period(p.n, p.lam))

    def rates(self, generations: int) -> kernels.Rates:
        """Return the learning rates of all parts for an update from ``generations`` generations."""
        t, n = generations, self.n
        # Negative weights are scaled as if z_i had length sqrt(n), and reduced in A if many candidates would
        # make it singular; under random selection A keeps its size
        against = min(1.0, 1 / max(2 * n * self.c_mu * t, 1e-300))
        fade = t * (self.c_1 + self.c_mu * (1 - against))
        return kernels.Rates(
            self.c_scale / 2, self.path_share * t, self.pull, LOG_SCALE_LIMIT, self.c_1_long, self.c_mu_long,
            self.c_short, self.c_mu, self.c_1 * t, n * against, fade,
        )  # fmt: skip

    def limits(self, generations: int) -> kernels.Limits:
        """Return the thresholds for axes for an update from ``generations`` generations."""
        return kernels.Limits(
            self.tau_long, self.tau_short, min(self.n / 4, SPAN), math.sqrt(self.c_1_long * generations)
        )

    def _check(self) -> None:
        for name in ("k_long", "k_short"):
            if not 0 <= getattr(self, name) <= self.n:
                raise ValueError(f"{name} must lie between 0 and n = {self.n}, got {getattr(self, name)}")
        if not 0 <= self.against <= 1:
            raise ValueError(f"against must lie between 0 and 1, got {self.against}")
        if self.period < 1:
            raise ValueError(f"period must be at least 1, got {self.period}")

    @classmethod
    def numbers_stored_for(cls, n: int, lam: int, given: Mapping[str, Any]) -> int:
        """Return the approximate number of values that a method stores because of the ``given`` constants."""
        period, long, short = (size_given(given, name) for name in ("period", "k_long", "k_short"))
        return 2 * period * lam * n + 2 * (long + short) * n + long * short


@dataclass(frozen=True, kw_only=True)
class PulseFullParameters(PulseParameters):
    """The constants of pulse with a full matrix, which differ from those of pulse below 64 variables.

    With few variables the matrix alone is learned within few generations. D and the axes would compete with
    it, so they are slower or absent. Moving away from bad candidates does not help where most directions
    from them are bad as well.
    """

    against: float = constant(lambda p: min(AGAINST, p.n / 40))
    c_m: float = constant(lambda p: 1 + 0.2 * min(1.0, share(p) ** 2, p.n / 64))
    c_scale: float = constant(lambda p: min(2 * diagonal_rate(p), 0.2, p.n / 200))
    k_long: int = constant(lambda p: max(0, min(p.n - 4, axes(p.n))))
    k_short: int = constant(lambda p: max(0, min(p.n - 4, axes(p.n))))
    c_mu: float = constant(
        lambda p: min(1.5 * matrix_speed(p.n) * RankParameters(p.n, p.lam, weights=p.weights).c_mu, CAP)
    )


def long_rates(p: PulseParameters) -> tuple[float, float]:
    """Return c_1F and c_muF, scaled so that their sum is at most 0.6."""
    c_1 = min(4 / (4 * p.n + p.mu_w), CAP)
    c_mu = min(2.5 * (p.mu_w - 2 + 1 / p.mu_w) / (4 * p.n + p.mu_w), 2.5 * c_1, CAP)
    scale = min(1.0, 0.6 / (c_1 + c_mu))
    return c_1 * scale, c_mu * scale
