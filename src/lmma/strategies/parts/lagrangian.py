"""The augmented Lagrangian: constraints become part of what is minimised, with multipliers that are learned.

After Atamna, Auger and Hansen (FOGA 2017) and Dufosse and Hansen (GECCO 2021), for g_k(x) <= 0:

    h(x) = f(x) + sum_k  gamma_k g_k + mu_k g_k^2 / 2    where mu_k g_k >= -gamma_k, and for equalities
                         -gamma_k^2 / (2 mu_k)           elsewhere

Ours: how coefficients begin, which makes the search invariant to the scale of f and of each g; g at the mean
of the search is estimated from the selected candidates, at no further evaluation; a constraint that is
violated far beyond what it began with is begun again, as f may fall faster than any square grows.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np
import numpy.typing as npt

from lmma.strategies.parts.recombination import Indices, log_weights

Values = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

DAMPING = 5.0  # of the multipliers: gamma += mu g / DAMPING
SOME, MOST = 0.1, 0.9  # shares of a generation that violate a constraint
LARGEST = 1e100  # of coefficients
GROWTH = 1e12  # of mu since it began: what can never be met would let it grow until f counts no more
FAR = 2.0  # times the largest violation it began with: there a constraint is begun again


@final
class AugmentedLagrangian:
    """Coefficients of the constraints, learned from generation to generation.

    Parameters
    ----------
    n, popsize : int
        Variables, and candidates per generation.
    equality : ndarray of bool, (p,)
        Which constraints are equalities.

    Attributes
    ----------
    gamma, mu : ndarray, (p,)
        Lagrange multipliers, and coefficients of the squares; 0 before a constraint has been violated.
    """

    STATE = ("gamma", "mu", "most", "begun", "far", "share", "moves")

    def __init__(self, n: int, popsize: int, equality: Mask) -> None:
        p = len(equality)
        self.equality = equality
        self.n = n
        self.weights = log_weights(popsize, max(1, popsize // 2))
        # Atamna's 2^(1/(5n)) would need 5,000 generations at n = 1,000 to double mu
        self.chi = 2.0 ** min(0.2, 1.0 / math.sqrt(n))
        self.horizon = 5.0 + math.sqrt(n)  # generations over which the share of feasible means is averaged
        self.gamma: Values = np.zeros(p)
        self.mu: Values = np.zeros(p)
        self.most: Values = np.zeros(p)  # that mu may become
        self.begun: Mask = np.zeros(p, dtype=np.bool_)  # has coefficients that fit
        self.far: Values = np.full(p, math.inf)  # violations beyond this are beyond what it began with
        self.share: Values = np.full(p, 0.5)  # of recent generations whose mean was feasible
        self.moves: Values = np.zeros(p)  # of mu in a row: positive upwards, negative downwards

    def value(self, values: Values, constraints: Values) -> Values:
        """Return h for each candidate."""
        gamma, mu = self.gamma, self.mu
        active = self.equality | (mu * constraints >= -gamma)
        at_rest = np.divide(-0.5 * gamma**2, mu, out=np.zeros_like(mu), where=mu > 0)
        with np.errstate(over="ignore"):  # what is infinite ranks last
            terms = np.where(active, constraints * (gamma + 0.5 * mu * constraints), at_rest)
            h: Values = values + terms.sum(axis=1)
        return h

    def tighten(self) -> None:
        """Double every mu: h tells candidates apart no more, and they are not feasible yet."""
        self.mu = np.minimum(2.0 * self.mu, self.most)

    def begin(self, values: Values, constraints: Values) -> None:
        """Give coefficients to constraints that a part of the generation violates for the first time."""
        size = np.abs(constraints)
        violated = np.where(self.equality, 1.0, np.mean(constraints > 0, axis=0))
        least = np.where(self.equality, size, constraints).min(axis=0)
        self.begun &= ~(least > self.far)
        new = ~self.begun & (violated > SOME) & (size.max(axis=0) > 0)
        if not np.any(new):
            return
        again = np.isfinite(self.far)
        width = _width(constraints)
        width = np.where(width > 0, width, np.maximum(size.max(axis=0), np.finfo(np.float64).tiny))
        height = float(_width(values)) or float(np.abs(values).max()) or 1.0
        slope = height / np.maximum(self.n * width, height / LARGEST)
        mu = np.maximum(slope / np.maximum(width, slope / LARGEST), np.where(again, self.mu, 0.0))
        gamma = np.minimum(np.maximum(slope, np.where(again, self.gamma, 0.0)), LARGEST)
        self.mu[new] = mu[new]
        self.most[new] = np.minimum(GROWTH * mu[new], LARGEST)
        self.gamma[new & ~self.equality] = gamma[new & ~self.equality]
        self.far[new] = FAR * size.max(axis=0)[new]
        self.begun |= new & ((violated < MOST) | self.equality)

    def learn(self, order: Indices, constraints: Values) -> None:
        """Change coefficients after a generation, of which ``order`` ranks the candidates by h."""
        weights = self.weights[: len(order)]
        g = (weights / weights.sum()) @ constraints[order[: len(weights)]]  # near that at the mean
        gamma, mu, equality = self.gamma, self.mu, self.equality
        idle = ~equality & (mu * constraints < -gamma).all(axis=0)
        changed = gamma + mu * g / DAMPING
        untouched = ~equality & ((changed < 0) | (mu * g < -gamma))  # mu stays as it is
        self.share += ((g <= 0) - self.share) / self.horizon
        far_off = np.abs(g) > _width(constraints)  # further from the limit than candidates are apart
        up = np.where(equality, far_off, (g > 0) | (self.share > 0.95)) & (mu > 0) & ~untouched
        down = np.where(equality, ~far_off, (g < 0) & (self.share < 0.9)) & (mu > 0) & ~untouched & ~up
        self.moves = np.where(
            up, np.maximum(self.moves, 0) + 1, np.where(down, np.minimum(self.moves, 0) - 1, self.moves)
        )
        patience = len(gamma) + 2  # equal moves in a row before they grow, to five times their size
        haste = np.clip(np.abs(self.moves) / patience - 1, 0, 4)
        # Beyond a limit by that much, f falls faster than mu holds: the search swings from side to side of it
        factor = self.chi ** ((1 + haste) / 4 + (up & far_off & ~equality))
        self.mu = np.minimum(np.where(up, mu * factor, np.where(down, mu / factor, mu)), self.most)
        self.gamma = np.where(idle, gamma, np.where(equality, changed, np.maximum(changed, 0)))


def _width(values: Values) -> Values:
    """Return the distance between the quartiles of each column."""
    quarters = np.quantile(values, (0.25, 0.75), axis=0)
    return np.asarray(quarters[1] - quarters[0])
