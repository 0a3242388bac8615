"""When a search is done, or never will be: what its values and steps say of it."""

from __future__ import annotations

import math
from collections import deque

from lmma.strategies.constrained import ConstrainedHooks
from lmma.strategies.parts.recombination import Array
from lmma.strategies.parts.ties import Ties

CONVERGED = frozenset(("tolx", "tolfun", "settled"))  # what stop() says of a search that is done
DIVERGED = 1e20  # steps grown by this factor have no optimum to find
FLAT = 150  # generations without a difference between values: ranks have carried no information
SMALL_VALUES = 1e-8  # a function that begins below has a tolfun by its own scale


class Convergence(ConstrainedHooks):
    """The part of :class:`lmma.Strategy` that says why to stop."""

    tolx: float
    tolfun: float
    spread: float
    spread_fun: float
    first_scale: float
    flat_for: int
    ties: Ties
    _recent: deque[float]

    def stop(self) -> dict[str, float]:
        """Return why to stop, as reason -> value; empty while the search is worth going on.

        Values that have never differed are no convergence, whatever the steps: they end as ``flat``.
        """
        sigma, spread, least = self.sigma, self.spread, self.least_difference
        if not 0.0 < sigma < math.inf:
            return {"numerical": sigma}
        reasons = {}
        if self.settling is not None and not self.settling.settled:
            return self._endless()
        if self.settling is not None and spread == math.inf and self.first_scale > 0.0:
            reasons["settled"] = float(self.settling.unimproved)
        if spread < self.tolx and self.first_scale > 0.0:
            reasons["tolx"] = spread
        plateau = self.spread_fun == 0.0 and self.ties.hinder  # fun does differ, by more than that
        # under noise candidates differ by chance; averages of generations tell convergence
        spread_fun = self.spread_fun if math.isnan(self.average_fun) else 0.0
        if spread_fun < least and not plateau and len(self._recent) == self._recent.maxlen:
            span = max(max(self._recent) - min(self._recent), spread_fun)
            if span < least:
                reasons["tolfun"] = span
        return reasons | self._endless()

    def _endless(self) -> dict[str, float]:
        """Return why a search that has not converged never will."""
        sigma, spread = self.sigma, self.spread
        reasons: dict[str, float] = {}
        if self.flat_for >= FLAT:
            reasons["flat"] = self.flat_for
        # infinite before the first generation with values
        largest = spread if sigma < spread < math.inf else sigma
        if largest > DIVERGED * self.sigma0:
            reasons["diverged"] = largest
        return reasons

    @property
    def least_difference(self) -> float:
        """The difference between values that ``tolfun`` means; 0 until values have differed.

        It is ``tolfun``, unless the values of the first generation all lie below 1e-8: then eleven digits
        are too few, and it is ``tolfun`` times a ten-thousandth of the largest of them. With constraints it
        is no less than the rounding of their sum.
        """
        small = self.first_scale < SMALL_VALUES
        least = self.tolfun * self.first_scale * 1e-4 if small else self.tolfun
        return least if self.constraints is None or not self.tolfun else max(least, self.constraints.floor)

    def _has_converged(self) -> bool:
        try:
            return not CONVERGED.isdisjoint(self.stop())
        except Exception:  # of a user's own; a run that asks it ends with its words
            return False

    def _fresh_record(self) -> deque[float]:
        """Return an empty record of the best values of recent generations, for ``tolfun``."""
        return deque(maxlen=10 + math.ceil(30 * self.n / self.popsize))

    def _note_differences(self, ranked: Array) -> None:
        """Take note of whether the values of a generation differ at all, and of how large they are."""
        least, most = ranked.item(0), ranked.item(-1)
        if least == most:
            self.flat_for = self.flat_for + 1 if len(ranked) > 1 else 0
            return
        self.flat_for = 0
        if self.first_scale == 0.0:
            self.first_scale = max(abs(least), abs(most))
