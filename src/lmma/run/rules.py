"""Rules that watch the values of a run and notice that it leads nowhere.

Those that a strategy can tell from its own state (tolx, tolfun, divergence, numerical trouble) are in
``strategies/base.py``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.run.stopping import Stop
from lmma.strategies import Strategy

Values = npt.NDArray[np.float64]


class Rule(ABC):
    """Watches values, generation by generation, and answers with a reason to stop or with None."""

    name: ClassVar[str] = ""

    @abstractmethod
    def watch(self, values: Values) -> None:
        """Take in the values of a generation, NaN where an evaluation failed."""

    @abstractmethod
    def check(self) -> Stop | None:
        """Return why to stop, or None."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Return what the rule remembers, as named arrays and numbers."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`."""


@final
class Flat(Rule):
    """Stops when all values of a generation have been equal for many generations in a row."""

    name = "flat"
    PATIENCE = 50  # generations; ranks then carry no information, and sigma is a random walk

    def __init__(self) -> None:
        self.count = 0

    def watch(self, values: Values) -> None:
        """Count generations without a difference."""
        known = values[~np.isnan(values)]
        self.count = self.count + 1 if len(known) > 1 and known.min() == known.max() else 0

    def check(self) -> Stop | None:
        """Return why to stop, or None."""
        return Stop("flat", self.count) if self.count >= self.PATIENCE else None

    def get_state(self) -> dict[str, Any]:
        """Return the count."""
        return {"count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from the count."""
        self.count = int(state["count"])


@final
class Stagnation(Rule):
    """Stops when neither the best nor the median value has improved over the second half of the run.

    The last and the first 30% of that half are compared by their medians, as Hansen does in BIPOP-CMA-ES
    (2009) for a fifth of the run. A fifth stops LM-MA-ES too early where it is slow but sure (discus: one
    order of magnitude in 860,000 evaluations); half a run without progress is no accident.

    At most ``KEPT`` generations are remembered, evenly spread.
    """

    name = "stagnation"
    KEPT = 4096

    def __init__(self, n: int, popsize: int) -> None:
        self.least = 2 * (120 + math.ceil(30 * n / popsize))  # generations before the first judgement
        self.stride = 1
        self.seen = 0
        self._best: list[float] = []
        self._median: list[float] = []
        self._judged_at = 0
        self._verdict: Stop | None = None

    def watch(self, values: Values) -> None:
        """Remember best and median of every ``stride``-th generation."""
        known = values[~np.isnan(values)]
        if len(known) and self.seen % self.stride == 0:
            known.sort()
            self._best.append(float(known[0]))
            self._median.append(float(known[len(known) // 2]))
            if len(self._best) >= self.KEPT:
                self._best, self._median = self._best[::2], self._median[::2]
                self.stride *= 2
        self.seen += 1

    def check(self) -> Stop | None:
        """Return why to stop, or None; judged anew whenever the run has grown by a hundredth."""
        if self.seen < self.least or self.seen < 1.01 * self._judged_at:
            return self._verdict
        self._judged_at = self.seen
        half = len(self._best) // 2
        part = max(1, (3 * half) // 10)
        if all(
            np.median(record[-part:]) >= np.median(record[-half : part - half or None])
            for record in (self._best, self._median)
        ):
            self._verdict = Stop("stagnation", self.seen // 2)
        return self._verdict

    def get_state(self) -> dict[str, Any]:
        """Return the remembered values."""
        return {
            "stride": self.stride,
            "seen": self.seen,
            "judged_at": self._judged_at,
            "stopped": 0 if self._verdict is None else int(self._verdict.value),
            "best": np.array(self._best),
            "median": np.array(self._median),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from remembered values."""
        self.stride, self.seen = int(state["stride"]), int(state["seen"])
        self._judged_at = int(state["judged_at"])
        self._verdict = Stop("stagnation", int(state["stopped"])) if int(state["stopped"]) else None
        self._best = [float(value) for value in state["best"]]
        self._median = [float(value) for value in state["median"]]


@final
class Allowance(Rule):
    """Stops one leg of a run with restarts when it has used its own share of evaluations."""

    name = "allowance"

    def __init__(self, evaluations: int) -> None:
        self.evaluations = evaluations
        self.used = 0

    def watch(self, values: Values) -> None:
        """Count."""
        self.used += len(values)

    def check(self) -> Stop | None:
        """Return why to stop, or None."""
        return Stop("allowance", self.used, self.evaluations) if self.used >= self.evaluations else None

    def get_state(self) -> dict[str, Any]:
        """Return the count."""
        return {"used": self.used}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from the count."""
        self.used = int(state["used"])


def rules_for(strategy: Strategy, *, stagnation: bool, allowance: int | None = None) -> list[Rule]:
    """Return fresh rules for a strategy that is about to start."""
    rules: list[Rule] = [Flat()]
    if stagnation:
        rules.append(Stagnation(strategy.n, strategy.popsize))
    if allowance is not None:
        rules.append(Allowance(allowance))
    return rules
