"""Whether integers and choices have settled: nothing better was found though every neighbour was tried."""

from __future__ import annotations

import math
from typing import ClassVar, final

from lmma.strategies.parts.integers import UNFORCED

LONGER = 4  # while nothing is feasible: the smallest of the largest violations is a poor sign of progress
TRIES = 5  # of each neighbour on the average: fewer than one in a hundred is then missed


@final
class Settling:
    """Counts the generations since the best value improved.

    Parameters
    ----------
    neighbours : int
        Other values next to the present ones: two of each integer, all others of each choice.
    popsize : int
        Candidates per generation, of which a share of 1 - 0.73 tries one of them.
    """

    STATE: ClassVar[tuple[str, ...]] = ("best", "unimproved")

    def __init__(self, neighbours: int, popsize: int) -> None:
        self.patience = math.ceil(TRIES * neighbours / (-math.log(UNFORCED) * popsize))
        self.best = math.inf
        self.unimproved = 0  # generations

    def look(self, best: float, least: float, *, better: bool = False) -> None:
        """Take note of the best value so far; improvements of less than ``least`` are none.

        ``better`` says that the search got on without one: nothing is feasible, but less is violated.
        """
        self.unimproved = 0 if better else self.unimproved + 1
        if best < self.best - least:
            self.best, self.unimproved = best, 0

    @property
    def settled(self) -> bool:
        """Whether all that lies next to the present values has been tried in vain."""
        patience = self.patience if math.isfinite(self.best) else LONGER * self.patience
        return self.unimproved >= patience
