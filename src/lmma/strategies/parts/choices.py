"""Choices: a categorical distribution beside a strategy, learned by a natural gradient of adaptive length.

=======  =============  =======  ====================================================================
symbol   code           shape    meaning
=======  =============  =======  ====================================================================
q        ``q``          (rows,)  probabilities, those of one variable after those of another
K        ``sizes``      (c,)     how many values each variable has
g        ``gradient``   (rows,)  natural gradient, sum_i w_i (onehot_i - q)
s        -              (rows,)  g in coordinates in which the Fisher matrix is the identity
delta    ``delta``      float    length of a step in these coordinates, 1/Delta
v        ``path``       (rows,)  fading record of s/|s|
gamma    ``weight``     float    what |v|^2 is if steps are random
q_min    ``least``      (rows,)  no probability is less: (1 - 0.73^(1/discrete))/(K - 1)
=======  =============  =======  ====================================================================

ASNG (Akimoto, Shirakawa, Yoshinari, Uchida, Saito, Nishida, ICML 2019), with the margin of Hamano and others
(GECCO 2025). All of it is linear in the number of values of all variables.
"""

from __future__ import annotations

import math
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.strategies.parts.integers import least_mutation
from lmma.strategies.parts.recombination import Array, Indices

Values = npt.NDArray[np.float64]

SIGNAL = 1.5  # |v|^2 beyond this many times gamma says that steps agree


@final
class Choices:
    """Independent categorical variables, with values 0 to K - 1 each.

    Parameters
    ----------
    sizes : ndarray, (c,)
        K of each variable, at least 2.
    discrete : int
        How many discrete variables there are, integers of the strategy included.
    preferred : ndarray, (c,), optional
        Values that are to have half of the probability at first; -1 for none.
    """

    STATE: ClassVar[tuple[str, ...]] = ("q", "path", "delta", "weight")

    def __init__(self, sizes: Indices, discrete: int, preferred: Indices | None = None) -> None:
        self.sizes = sizes
        self.first: Indices = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.intp)
        self.last: Indices = self.first + sizes - 1
        self.q: Values = np.repeat(1 / sizes, sizes)
        self.least: Values = np.repeat(least_mutation(discrete) / (sizes - 1), sizes)
        self.path: Values = np.zeros(len(self.q))
        self.delta = 1.0
        self.weight = 0.0
        self._degrees = math.sqrt(float(np.sum(sizes - 1)))
        if preferred is not None and np.any(wanted := preferred >= 0):
            rows = np.repeat(wanted, sizes)
            self.q[rows] /= 2
            self.q[(self.first + preferred)[wanted]] += 0.5

    def draw(self, uniform: Values) -> Indices:
        """Return a value for each of ``uniform``, (candidates, c), numbers in [0, 1)."""
        drawn = np.zeros(uniform.shape, dtype=np.intp)
        for k in range(int(self.sizes.max()) - 1):
            inside = k < self.sizes - 1
            threshold = np.where(inside, self._cumulated(k), 2.0)
            drawn += uniform >= threshold
        return drawn

    def _cumulated(self, k: int) -> Values:
        """Return the probability of the values 0 to ``k`` of each variable; of all, where there are fewer."""
        total = np.add.accumulate(self.q)
        before = total[self.first] - self.q[self.first]
        reached: Values = total[np.minimum(self.first + k, self.last)] - before
        return reached

    def modes(self) -> Indices:
        """Return the most probable value of each variable."""
        best = np.maximum.reduceat(self.q, self.first)
        rows = np.flatnonzero(self.q == np.repeat(best, self.sizes))
        variable = np.repeat(np.arange(len(self.sizes)), self.sizes)[rows]
        modes: Indices = rows[np.searchsorted(variable, np.arange(len(self.sizes)))] - self.first
        return modes

    def learn(self, drawn: Indices, weights: Array) -> None:
        """Move q towards the values ``drawn``, (mu, c), best first, by the natural gradient."""
        q = self.q
        frequency = np.zeros(len(q))
        for values, weight in zip(drawn, weights.tolist(), strict=True):
            frequency[self.first + values] += weight
        gradient = frequency - float(weights.sum()) * q
        s = self._whitened(gradient)
        length = math.sqrt(float(s @ s))
        if length > 0.0:
            q += self.delta / length * gradient
            b = self.delta / self._degrees
            self.path *= 1 - b
            self.path += math.sqrt(b * (2 - b)) / length * s
            self.weight = (1 - b) ** 2 * self.weight + b * (2 - b)
            slower = math.exp(b * (self.weight - float(self.path @ self.path) / SIGNAL))
            self.delta = min(self.delta / slower, self._degrees)  # b is a rate, at most 1
        self._keep_margin()

    def _whitened(self, gradient: Values) -> Values:
        """Return s; the entry of each variable's last value is 0."""
        q, root = self.q, np.sqrt(self.q)
        last = q[self.last]
        others = -gradient[self.last]  # a gradient sums to 0 over the values of a variable
        s: Values = gradient / root + root * np.repeat(others / (last + np.sqrt(last)), self.sizes)
        s[self.last] = 0.0
        return s

    def _keep_margin(self) -> None:
        """Raise what is less than q_min to it, and take that from the others."""
        q = np.maximum(self.q, self.least)
        excess = np.add.reduceat(q, self.first) - 1
        room = np.add.reduceat(q - self.least, self.first)
        q -= np.repeat(excess / np.maximum(room, 1e-300), self.sizes) * (q - self.least)
        q /= np.repeat(np.add.reduceat(q, self.first), self.sizes)
        self.q[...] = q
