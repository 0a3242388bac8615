"""Warm starts: going on from what an earlier run has found and learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.strategies import Strategy

Array = npt.NDArray[np.floating]
LEARNED = ("transform.", "step.")  # parts of a strategy's state that are knowledge rather than progress


class Learned:
    """What a strategy has learned, for ``minimize(fun, result)``; part of every result.

    It refers to the strategy rather than copying it: at n = 10^6 its vectors take hundreds of megabytes.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    def __repr__(self) -> str:
        return f"<what {self.strategy.name} learned in {self.strategy.generation} generations>"

    def teach(self, new: Strategy) -> bool:
        """Hand knowledge over to ``new`` if it is of the same kind and size; return whether that was so."""
        old = self.strategy
        if type(old) is not type(new) or (old.n, old.dtype) != (new.n, new.dtype):
            return False
        theirs, state = old.get_state(), new.get_state()
        known = {name for name in state if name.startswith(LEARNED)}
        if any(np.shape(theirs[name]) != np.shape(state[name]) for name in known):
            return False  # another number of direction vectors, for instance
        new.set_state(state | {name: theirs[name] for name in known})
        if old.scale is not None:  # the learned transform acts before a step size for each coordinate does
            new.scale = old.scale.copy()
        new.first_scale = old.first_scale  # near the optimum, first values say nothing about fun's scale
        return True


@dataclass(frozen=True)
class WarmStart:
    """Where to start, and what an earlier run hands over: its step size, its knowledge, its method."""

    x0: Any
    sigma0: float | None = None
    learned: Learned | None = None
    method: str | None = None


def warm_start(x0: Any) -> WarmStart:
    """Return what an earlier result hands over; any other ``x0`` as it is.

    The mean of the search is a better start than the best point: it has less luck in it. After restarts the
    last search may be another one than that which found x; then only x is taken.
    """
    if not (hasattr(x0, "get") and hasattr(x0, "x")):
        return WarmStart(x0)
    learned = x0.get("learned")
    runs = x0.get("runs") or []
    if learned is None or (runs and min(run.best_fun for run in runs) < runs[-1].best_fun):
        return WarmStart(x0.x)
    sigma = x0.get("sigma")
    return WarmStart(x0.get("mean", x0.x), None if sigma is None else float(sigma), learned, x0.get("method"))
