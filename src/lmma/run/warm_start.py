"""Warm starts: going on from what an earlier run has found and learned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.strategies import Strategy
from lmma.strategies.parts.state import State, collect

Array = npt.NDArray[np.floating]


class Learned:
    """What a strategy has learned, for ``minimize(fun, result)``; part of every result.

    It refers to the strategy rather than copying it: at n = 10^6 its vectors take hundreds of megabytes. A
    pickle has what was learned alone, without candidates.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.kind = type(strategy)
        self.size = (strategy.n, strategy.dtype)
        self.popsize = strategy.popsize
        self.options = strategy.options
        self.generation = strategy.generation
        self.scale = strategy.scale
        self.first_scale = strategy.first_scale
        self.multipliers = _multipliers(strategy)
        self._strategy: Strategy | None = strategy
        self._parts: State = {}  # in place of the strategy

    @property
    def strategy(self) -> Strategy | None:
        """The strategy itself; None in a copy that was pickled."""
        return self._strategy

    def __repr__(self) -> str:
        return f"<what {self.kind.name} learned in {self.generation} generations>"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_strategy": None, "_parts": self.parts()}

    def parts(self) -> State:
        """Return what was learned, as named arrays and numbers; not copies."""
        return self._parts if self._strategy is None else _learned_by(self._strategy)

    def teach(self, new: Strategy) -> bool:
        """Hand knowledge over to ``new`` if it is of the same kind and size; return whether that was so."""
        if self.kind is not type(new) or self.size != (new.n, new.dtype):
            return False
        theirs, known = self.parts(), _learned_by(new)
        if theirs.keys() != known.keys() or any(np.shape(theirs[k]) != np.shape(known[k]) for k in known):
            return False  # another number of direction vectors, for instance
        new.set_state(new.get_state() | {name: theirs[name] for name in known})
        if self.scale is not None:  # the learned transform acts before a step size for each coordinate does
            new.scale = self.scale.copy()
        new.constraint_options = replace(new.constraint_options, multipliers=self.multipliers)
        new.first_scale = self.first_scale  # near the optimum, first values say nothing about fun's scale
        return True


def _multipliers(strategy: Strategy) -> npt.NDArray[np.float64] | None:
    """Return what is known of constraints: gamma and mu of the augmented Lagrangian, one row each."""
    known = None if strategy.constraints is None else strategy.constraints.lagrangian
    return None if known is None else np.stack((known.gamma, known.mu))


def _learned_by(strategy: Strategy) -> State:
    """Return the state of a strategy's parts, which is knowledge; its own is progress."""
    return collect(strategy._parts(), copy=False)


@dataclass(frozen=True)
class WarmStart:
    """Where to start, and what an earlier run hands over: its step size, its knowledge, its method."""

    x0: Any
    sigma0: float | None = None
    learned: Learned | None = None
    method: str | None = None


def is_result(x0: Any) -> bool:
    """Return whether ``x0`` is an earlier result; of a structure in a file the vector alone is kept."""
    return hasattr(x0, "get") and (hasattr(x0, "x") or hasattr(x0, "vector"))


def warm_start(x0: Any) -> WarmStart:
    """Return what an earlier result hands over; any other ``x0`` as it is.

    The mean of the search is a better start than the best point: it has less luck in it. After restarts the
    last search may be another one than that which found x; then only x is taken.
    """
    if not is_result(x0):
        return WarmStart(x0)
    learned = x0.get("learned")
    runs = x0.get("runs") or []
    if learned is None or (runs and min(run.best_fun for run in runs) < runs[-1].best_fun):
        return WarmStart(x0.get("vector", x0.get("x")))
    sigma = x0.get("sigma")
    return WarmStart(
        x0.get("mean", x0.get("x")), None if sigma is None else float(sigma), learned, x0.get("method")
    )
