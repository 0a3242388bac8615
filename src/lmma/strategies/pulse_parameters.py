"""The constants of pulse, whose symbols ``pulse.py`` explains: how many, how fast, from which size on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lmma import kernels
from lmma.strategies.dlmma import diagonal_rate
from lmma.strategies.lmma import CAP
from lmma.strategies.parts.parameters import Parameters, RankParameters, constant, derived
from lmma.strategies.parts.rank_weights import active_weights
from lmma.strategies.parts.recombination import Array, default_popsize
from lmma.strategies.parts.stepsize import crowding

# What each constant is worth, and how it was chosen: docs/research.md, "Constants".
CAUTION = 1.5  # power of kappa; 1 is the Fisher matrix's, but A must undo what D does to a rotated function
AGAINST = 0.5  # what negative weights count in the mean
SPAN = 16  # an axis along fewer coordinates than about a third of this is D's work
REACH = 6.0  # log D beyond this is pulled back where axes contract across coordinates
HELD = 2**23  # numbers held back for learning at most, 64 MB


def share(p: PulseParameters) -> float:
    """Return Lam: the default population's share in this one."""
    return default_popsize(p.n) / p.lam


def axes(n: int) -> int:
    """Return how many directions are learned: O(log n)."""
    return max(0, min(n - 1, int(3.3 * math.log(n))))


def default_period(n: int, lam: int) -> int:
    """Return how many generations the metric learns from at once: 4, or fewer of many candidates."""
    return max(1, min(4, int(1.3 * n / lam), HELD // (n * lam)))


def learning_rows(n: int, lam: int) -> int:
    """Return how many rows of n numbers learning holds: z collected, then z at hand, H and F."""
    return 2 * default_period(n, lam) * lam + 4 * axes(n) + lam + 16


def mean_weights(weights: Array, count: int) -> Array:
    """Return W_i for ``count`` ranked candidates: the worse half counts against."""
    total: Array = AGAINST * np.minimum(active_weights(count), 0.0)
    total[: len(weights)] += weights
    return total


@dataclass(frozen=True, kw_only=True)
class PulseParameters(Parameters):
    """The constants of pulse; docs/research.md, "Constants", says how they were chosen."""

    mu_e: float = derived(lambda p: 1 / float(np.sum(np.square(mean_weights(p.weights, p.lam)))))
    c_m: float = constant(lambda p: 1 + 0.2 * min(1.0, share(p) ** 2))
    c_sigma: float = constant(lambda p: min(1.1 * p.lam / p.n, max(0.2, min(0.3, 0.2 / math.sqrt(share(p))))))
    d_sigma: float = constant(lambda p: min(2.0, max(0.8, 40 / p.n * share(p))))
    crowd: float = derived(lambda p: crowding(p.mu_e, p.n))
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
        """Return how fast each part learns from so many generations."""
        t, n = generations, self.n
        # Negative weights are scaled as if z_i had length sqrt(n), and count less in A where many candidates
        # would make it singular; it keeps its size where selection is random
        against = min(1.0, 1 / max(2 * n * self.c_mu * t, 1e-300))
        fade = t * (self.c_1 + self.c_mu * (1 - against))
        return kernels.Rates(
            self.c_scale / 2, self.path_share * t, self.pull, REACH, self.c_1_long, self.c_mu_long,
            self.c_short, self.c_mu, self.c_1 * t, n * against, fade,
        )  # fmt: skip

    def limits(self, generations: int) -> kernels.Limits:
        """Return what axes must exceed after so many generations."""
        return kernels.Limits(
            self.tau_long, self.tau_short, min(self.n / 4, SPAN), math.sqrt(self.c_1_long * generations)
        )

    def _check(self) -> None:
        for name in ("k_long", "k_short"):
            if not 0 <= getattr(self, name) <= self.n:
                raise ValueError(f"{name} must lie between 0 and n = {self.n}, got {getattr(self, name)}")
        if self.period < 1:
            raise ValueError(f"period must be at least 1, got {self.period}")


def long_rates(p: PulseParameters) -> tuple[float, float]:
    """Return c_1F and c_muF, which together take away less than 0.6 of F."""
    c_1 = min(4 / (4 * p.n + p.mu_w), CAP)
    c_mu = min(2.5 * (p.mu_w - 2 + 1 / p.mu_w) / (4 * p.n + p.mu_w), 2.5 * c_1, CAP)
    scale = min(1.0, 0.6 / (c_1 + c_mu))
    return c_1 * scale, c_mu * scale
