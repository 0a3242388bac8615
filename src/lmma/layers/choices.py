"""Choices: a categorical distribution next to a method, learned by a natural gradient of adaptive length.

Coordinates of a candidate that are choices hold the index of a value. The method searches the remaining
columns only, so its constants, paths and matrices have their dimension. Both learn from the same ranks.

=======  =============  =======  ====================================================================
symbol   code           shape    meaning
=======  =============  =======  ====================================================================
q        ``q``          (rows,)  probabilities, concatenated over the variables
K        ``sizes``      (c,)     number of values of each variable
g        ``gradient``   (rows,)  natural gradient, sum_i w_i (onehot_i - q)
s        -              (rows,)  g in coordinates in which the Fisher matrix is the identity
delta    ``delta``      float    length of a step in these coordinates, 1/Delta
v        ``path``       (rows,)  fading record of s/|s|
gamma    ``weight``     float    expected |v|^2 if steps are random
q_min    ``least``      (rows,)  lower limit on q: (1 - 0.73^(1/discrete))/(K - 1)
=======  =============  =======  ====================================================================

ASNG (Akimoto, Shirakawa, Yoshinari, Uchida, Saito, Nishida, ICML 2019), with the margin of Hamano and others
(GECCO 2025). Time and memory are linear in the total number of values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.layers.bounds import read_bounds
from lmma.layers.integers import checked_integrality, least_mutation
from lmma.layers.layer import Layer, Told
from lmma.numerics.checks import checked_x0
from lmma.numerics.recombination import Array, Indices
from lmma.numerics.state import FINITE, UNIT, Declared

if TYPE_CHECKING:
    from lmma.methods.base import Method

Values = npt.NDArray[np.float64]
Categories = Mapping[int, range]  # coordinate -> its values

STREAM = 2**32  # random stream, separate from those available to a user method
FEW_VALUES = 32  # up to here, all variables are drawn together, one value at a time
SIGNAL = 1.5  # steps agree if |v|^2 exceeds gamma by this factor


@final
class Choices(Layer):
    """The coordinates that are choices, sampled from a categorical distribution.

    Parameters
    ----------
    categories : mapping
        Coordinate -> range of its values.
    x0 : ndarray, (n,)
        The start. A choice whose value in ``x0`` is valid starts with half of its probability on that value.
    integers : int
        The number of integer coordinates.
    """

    name = "choices"

    def __init__(self, categories: Categories, x0: Array, integers: int) -> None:
        n = len(x0)
        self.categories = dict(categories)
        self.columns: Indices = np.array(sorted(categories), dtype=np.intp)
        self.numbers: Indices = np.setdiff1d(np.arange(n), self.columns)
        self.offsets = np.array([categories[int(j)].start for j in self.columns], dtype=np.intp)
        sizes = np.array([len(categories[int(j)]) for j in self.columns], dtype=np.intp)
        preferred = x0[self.columns].astype(np.float64) - self.offsets
        known = (preferred == np.rint(preferred)) & (preferred >= 0) & (preferred < sizes)
        self.discrete = integers + len(self.columns)
        self.neighbours = int(np.sum(sizes - 1))
        self.distribution = Categorical(sizes, self.discrete, np.where(known, preferred, -1).astype(np.intp))
        self.drawn: Indices = np.zeros((0, len(self.columns)), dtype=np.intp)
        self.candidates: Array = np.zeros((0, len(self.numbers)))  # columns filled by the method
        self._pinned: Indices = self.drawn  # values of injected points

    def parts(self) -> dict[str, object]:
        """Return the distribution, which holds the state."""
        return {self.name: self.distribution}

    def allocate(self, rows: int, dtype: npt.DTypeLike) -> Array:
        """Return an array for the columns that the method searches."""
        if self.candidates.shape[0] != rows or self.candidates.dtype != dtype:
            self.candidates = np.empty((rows, len(self.numbers)), dtype=dtype)
        return self.candidates

    def pin(self, points: Array) -> None:
        """Set the choices of the last rows of the next batch to those of injected ``points``."""
        self._pinned = points[:, self.columns].astype(np.intp) - self.offsets

    def accepts(self, points: Array) -> bool:
        """Return True if the choices of all ``points``, one per row, are valid indices."""
        values = points[:, self.columns] - self.offsets
        return not np.any((values != np.rint(values)) | (values < 0) | (values >= self.distribution.sizes))

    def on_ask(self, method: Method, X: Array, first: int, rows: int) -> None:
        """Draw the choices."""
        self.drawn = self._draw(method, rows, 0)
        if len(self._pinned):
            self.drawn[rows - len(self._pinned) :] = self._pinned
            self._pinned = self._pinned[:0]

    def on_resample(self, method: Method, X: Array, rows: Indices, attempt: int) -> None:
        """Redraw the choices of the candidates at ``rows``."""
        self.drawn[rows] = self._draw(method, len(X), attempt)[rows]

    def _draw(self, method: Method, rows: int, attempt: int) -> Indices:
        uniform = method.generator(STREAM + attempt).random((rows, len(self.columns)))
        return self.distribution.draw(uniform)

    def fill(self, out: Array) -> None:
        """Write the candidates to ``out``, (rows, n): the columns of the method and the choices."""
        out[:, self.numbers] = self.candidates
        out[:, self.columns] = self.drawn + self.offsets

    def complete(self, numbers: Array) -> Array:
        """Return ``numbers``, a point of the method, extended by the most probable choices."""
        x = np.empty(len(self.numbers) + len(self.columns), dtype=numbers.dtype)
        x[self.numbers] = numbers
        x[self.columns] = self.distribution.modes() + self.offsets
        return x

    def other_values(self, x: Array) -> tuple[Indices, Values]:
        """Return all values that the choices do not have in ``x``, and the column of each."""
        sizes = self.distribution.sizes
        columns, first = np.repeat(self.columns, sizes - 1), np.cumsum(sizes - 1) - (sizes - 1)
        here = np.repeat(x[self.columns] - self.offsets, sizes - 1)
        others = np.arange(len(columns)) - np.repeat(first, sizes - 1)
        others = others + (others >= here)
        return columns, (others + np.repeat(self.offsets, sizes - 1)).astype(np.float64)

    def move_to(self, x: Array) -> None:
        """Prefer the choices of ``x`` that are not the most probable ones."""
        wanted = (x[self.columns] - self.offsets).astype(np.intp)
        self.distribution.prefer(np.where(wanted == self.distribution.modes(), -1, wanted))

    def after_update(self, method: Method, told: Told) -> None:
        """Update the distribution from the choices of the better candidates."""
        weights = method.selection_weights()[: len(told.order)]
        self.distribution.learn(self.drawn[told.order[: len(weights)]], weights)


@final
class Categorical:
    """Independent categorical variables, with values 0 to K - 1 each.

    Parameters
    ----------
    sizes : ndarray, (c,)
        K of each variable, at least 2.
    discrete : int
        The number of discrete variables, including integer coordinates of the strategy.
    preferred : ndarray, (c,), optional
        Values that start with half of the probability; -1 for none.
    """

    STATE: ClassVar[Declared] = {"q": UNIT, "path": FINITE, "delta": FINITE, "weight": FINITE}

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
        if preferred is not None:
            self.prefer(preferred)

    def prefer(self, preferred: Indices) -> None:
        """Move half of the probability to the values ``preferred``, (c,); -1 for none."""
        if np.any(wanted := preferred >= 0):
            self.q[np.repeat(wanted, self.sizes)] /= 2
            self.q[(self.first + preferred)[wanted]] += 0.5

    def draw(self, uniform: Values) -> Indices:
        """Return a value for each entry of ``uniform``, (candidates, c), numbers in [0, 1)."""
        drawn = np.zeros(uniform.shape, dtype=np.intp)
        total = np.add.accumulate(self.q)
        before = total[self.first] - self.q[self.first]
        few = self.sizes <= FEW_VALUES
        for k in range(int(self.sizes[few].max(initial=1)) - 1):
            reached = total[np.minimum(self.first + k, self.last)] - before  # probability of 0 to k
            drawn += uniform >= np.where(k < self.sizes - 1, reached, 2.0)
        for j in np.flatnonzero(~few):
            thresholds = total[self.first[j] : self.last[j]] - before[j]
            drawn[:, j] = np.searchsorted(thresholds, uniform[:, j], side="right")
        return drawn

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
        """Return s, with 0 at the last value of each variable."""
        q, root = self.q, np.sqrt(self.q)
        last = q[self.last]
        others = -gradient[self.last]  # a gradient sums to 0 over the values of a variable
        s: Values = gradient / root + root * np.repeat(others / (last + np.sqrt(last)), self.sizes)
        s[self.last] = 0.0
        return s

    def _keep_margin(self) -> None:
        """Raise probabilities to at least q_min, and lower the others in proportion."""
        q = np.maximum(self.q, self.least)
        excess = np.add.reduceat(q, self.first) - 1
        room = np.add.reduceat(q - self.least, self.first)
        q -= np.repeat(excess / np.maximum(room, 1e-300), self.sizes) * (q - self.least)
        q /= np.repeat(np.add.reduceat(q, self.first), self.sizes)
        self.q[...] = q


def two_valued(x0: npt.ArrayLike, bounds: Any, integrality: Any) -> dict[int, range]:
    """Return the integer coordinates whose bounds allow exactly two values, with these values."""
    n = len(checked_x0(x0, np.float64))
    columns = checked_integrality(integrality, n)
    lower, upper = read_bounds(bounds, n)
    low, high = np.ceil(lower[columns]), np.floor(upper[columns])
    two = high == low + 1
    return {
        int(column): range(int(first), int(first) + 2)
        for column, first in zip(columns[two], low[two], strict=True)
    }
