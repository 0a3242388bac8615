"""Detection of convergence, divergence and flat functions from values and steps."""

from __future__ import annotations

import math
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.numerics.recombination import Array
from lmma.numerics.state import COUNT, DISTANCE, FLAG, NOT_NEGATIVE, VALUE, Declared

if TYPE_CHECKING:
    from lmma.layers.integers import NeighbourSearch
    from lmma.layers.layer import Told
    from lmma.methods.ask_tell import Strategy

CONVERGED = frozenset(
    ("tolx", "tolfun", "converged", "integer_search_exhausted")
)  # reasons that mean convergence
DIVERGED = 1e20  # growth of the step size that counts as divergence
FLAT = 150  # generations of equal values, in which ranks carry no information
SMALL_VALUES = 1e-8  # if the first values are smaller, tolfun is relative to them
TIED_SHARE = 0.7  # share of the candidates, best first, as in Hansen's purecmaes
LAST_DIGITS = 8  # units in the last place: typical rounding error of a sum
DISCRETE_SHARE = 0.6  # share for convergence with discrete coordinates, whose changes are forced

MAX_SNAPSHOTS = 1000
COLUMNS = (
    "evaluations", "best_fun", "sigma", "failures", "popsize", "quality", "rate", "repeats", "average_fun",
)  # fmt: skip
Row = tuple[float, ...]  # one value for each of COLUMNS


@final
class Convergence:
    """Convergence statistics, from which :meth:`lmma.Strategy.stop` derives its reasons.

    Parameters
    ----------
    tolx, tolfun : float
        Tolerances.
    window : int
        Number of generations that ``tolfun`` considers.
    neighbours : NeighbourSearch, optional
        Record of tried neighbours, for integers or choices.

    Attributes
    ----------
    spread, spread_fun : float
        Typical distance of a candidate of the last generation from the centre of all, per coordinate, and
        the range of values; infinite until a generation has values.
    first_scale : float
        Largest |value| of the first generation in which values differed; 0 before.
    flat_for : int
        Number of consecutive generations in which all values were equal.
    floor : float
        Rounding error of differences between values; positive with constraints.
    share : float
        Share of the candidates, best first, used to detect convergence.
    """

    STATE: ClassVar[Declared] = {
        "spread": DISTANCE, "spread_fun": DISTANCE, "first_scale": NOT_NEGATIVE, "flat_for": COUNT,
        "floor": NOT_NEGATIVE, "recent": VALUE,
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("recent",)

    def __init__(
        self, tolx: float, tolfun: float, window: int, neighbours: NeighbourSearch | None = None
    ) -> None:
        self.tolx, self.tolfun = tolx, tolfun
        self.neighbours = neighbours
        self.share = 1.0 if neighbours is None else DISCRETE_SHARE
        self.spread = math.inf
        self.spread_fun = math.inf
        self.first_scale = 0.0
        self.flat_for = 0
        self.floor = 0.0
        self.ties = Ties()
        self._recent: deque[float] = deque(maxlen=window)  # the best values, for ``tolfun``

    def parts(self) -> dict[str, object]:
        """Return the stateful components, by name."""
        found = {} if self.neighbours is None else {"neighbours": self.neighbours}
        return {"convergence": self, "ties": self.ties, **found}

    @property
    def recent(self) -> npt.NDArray[np.float64]:
        """The best values of recent generations."""
        return np.array(self._recent, dtype=np.float64)

    @recent.setter
    def recent(self, recent: npt.NDArray[np.float64]) -> None:
        self._recent = deque(map(float, recent), maxlen=self._recent.maxlen)

    def set_window(self, window: int) -> None:
        """Set the number of generations that ``tolfun`` considers, and forget previous ones."""
        self._recent = deque(maxlen=window)

    def update(self, told: Told, best_fun: float, *, new_best: bool) -> None:
        """Update the statistics from a batch in which at least one candidate has a value.

        ``new_best`` is True if there is a new best point.
        """
        ranked, report = told.ranked, told.report
        if report is not None:
            self.floor = report.floor
        if self.neighbours is not None:
            closer = new_best and report is not None and not report.feasible
            self.neighbours.record(best_fun, self.least_difference, new_best=new_best, closer=closer)
        least = ranked.item(0)
        better = ranked if self.share == 1.0 else ranked[: math.ceil(self.share * len(ranked))]
        if report is None:
            self._recent.append(least)
            spread = better.item(-1) - least
            self.spread_fun = spread if spread == spread else math.inf  # NaN: all values are infinite
        else:
            self._recent.append(report.merit)
            self.spread_fun = report.spread
        self._update_flatness(ranked if told.values is told.plain else np.sort(told.plain[told.order]))
        self.ties.update(better, self.least_difference)

    def use_average(self, average: float, *, first: bool) -> None:
        """Replace the best value of the last generation, which is biased under noise, by an average."""
        if first:
            self._recent.clear()
        else:
            self._recent[-1] = average

    def stop(self, sigma: float, sigma0: float, *, averaged: bool) -> dict[str, float]:
        """Return the reasons to stop, as reason -> value.

        ``averaged`` is True if convergence is tested on averages of generations, because values are noisy.
        """
        if not 0.0 < sigma < math.inf:
            return {"numerical": sigma}
        reasons: dict[str, float] = {}
        spread, differed = self.spread, self.first_scale > 0.0
        if self.neighbours is not None:
            at_rest = self.neighbours.exhausted and (
                self.neighbours.has_small_steps or self.spread_fun == 0.0  # steps stay on a plateau
            )
            if not at_rest:
                return self._failure_reasons(sigma, sigma0)
            if spread == math.inf and differed:
                reasons["integer_search_exhausted"] = float(self.neighbours.unimproved)
        if spread < self.tolx and differed:
            reasons["tolx"] = spread
        least = self.least_difference
        plateau = self.spread_fun == 0.0 and self.ties.significant  # values do differ, by more than ``least``
        spread_fun = 0.0 if averaged else self.spread_fun
        if spread_fun < least and not plateau and len(self._recent) == self._recent.maxlen:
            span = max(max(self._recent) - min(self._recent), spread_fun)
            if span < least:
                reasons["tolfun"] = span
        return reasons | self._failure_reasons(sigma, sigma0)

    def _failure_reasons(self, sigma: float, sigma0: float) -> dict[str, float]:
        """Return the reasons why the search cannot converge: flat function or divergence."""
        reasons: dict[str, float] = {}
        if self.flat_for >= FLAT:
            reasons["flat"] = self.flat_for
        # spread is infinite before the first generation with values
        largest = self.spread if sigma < self.spread < math.inf else sigma
        if largest > DIVERGED * sigma0:
            reasons["diverged"] = largest
        return reasons

    @property
    def least_difference(self) -> float:
        """Smallest significant difference between values, from ``tolfun``; 0 until values have differed.

        It is ``tolfun``, unless the values of the first generation are all below 1e-8 in magnitude: then it
        is ``tolfun`` times 1e-4 of the largest of them. With constraints it is at least the rounding error
        of their sum.
        """
        small = self.first_scale < SMALL_VALUES
        least = self.tolfun * self.first_scale * 1e-4 if small else self.tolfun
        return max(least, self.floor) if self.tolfun else least

    def _update_flatness(self, ranked: Array) -> None:
        """Update ``flat_for`` and ``first_scale`` from the sorted values of one generation."""
        least, most = ranked.item(0), ranked.item(-1)
        if least == most:
            self.flat_for = self.flat_for + 1 if len(ranked) > 1 else 0
            return
        self.flat_for = 0
        if self.first_scale == 0.0:
            self.first_scale = max(abs(least), abs(most))


@final
class Ties:
    """Detection of equal values among the best candidates, which carry no information for the step size.

    The steps are then too short for the resolution of fun: a plateau, or a simulator that prints six digits.
    Hansen's ``purecmaes`` lengthens them, and so does :class:`~lmma.methods.es.ES`. Ties are insignificant
    if the next larger value differs by less than the smallest significant difference or by rounding errors:
    the search has then converged.

    Attributes
    ----------
    count : int
        Number of generations with ties.
    gap : float
        Difference between the next larger value and the best at the last tie that had one; 0 before.
    significant : bool
        True if the last generation had ties that are not due to convergence.
    """

    STATE: ClassVar[Declared] = {"count": COUNT, "gap": NOT_NEGATIVE, "significant": FLAG}

    def __init__(self) -> None:
        self.count = 0
        self.gap = 0.0
        self.significant = False

    def update(self, ranked: Array, least: float) -> None:
        """Update from sorted values of one generation; ``least`` is the smallest significant difference."""
        last = math.ceil(TIED_SHARE * len(ranked)) - 1
        if last < 1 or ranked.item(0) != ranked.item(last):
            self.significant = False
            return
        self.count += 1
        best = float(ranked[0])
        larger = ranked[np.searchsorted(ranked, best, side="right") :]
        if len(larger):
            self.gap = float(larger[0]) - best
        negligible = max(least, LAST_DIGITS * _unit_in_the_last_place(best))
        self.significant = not 0.0 < self.gap <= negligible


def _unit_in_the_last_place(value: float) -> float:
    """Return the spacing of floats at ``value``, of float32 if ``value`` is exactly representable there."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return float(np.spacing(abs(single))) if float(single) == value else math.ulp(value)


@final
class ConvergenceRecord:
    """Up to 1000 snapshots, evenly spaced over the generations.

    When there are more, every second one is dropped and the stride doubles. The record is not part of the
    state: a strategy that continues from a state starts a new one.
    """

    __slots__ = ("_due", "_rows", "_stride")

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._stride = 1
        self._due = 0  # generation of the next snapshot

    def take(self, generation: int, strategy: Strategy) -> None:
        """Append a snapshot if one is due at ``generation``."""
        if generation >= self._due:
            self._rows.append(self._row(strategy))
            if len(self._rows) > MAX_SNAPSHOTS:
                self._rows = self._rows[::2]
                self._stride *= 2
            self._due = generation + self._stride

    def stop(self) -> None:
        """Take no further snapshots."""
        self._due = sys.maxsize

    def columns(self, strategy: Strategy) -> dict[str, list[Any]]:
        """Return one list for each quantity, ending with the current state of the strategy."""
        last = self._row(strategy)
        rows = self._rows if self._rows and self._rows[-1][0] == last[0] else [*self._rows, last]
        return dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))

    def _row(self, es: Strategy) -> Row:
        noise, record = es.noise, es.record
        return (
            record.evaluations, record.best_fun, es.sigma, record.failures, es.popsize, noise.quality,
            noise.rate, noise.repeats, es.average_fun,
        )  # fmt: skip
