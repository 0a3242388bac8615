"""Budgets and targets, and plain words for every reason to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lmma.run.counters import Tally
from lmma.strategies import Strategy

FAILING = 3  # generations without a single value after which nothing is to be hoped for

# reason -> status code, whether it counts as success, words with {limit} and {value} to fill in
REASONS: dict[str, tuple[int, bool, str]] = {
    "ftarget": (0, True, "The target is reached: fun = {value:.6g} <= ftarget = {limit:.6g}."),
    "tolx": (
        1, True,
        "Converged: steps of {value:.3g} in x are below tolx = {limit:.3g}; a smaller tolx searches on.",
    ),
    "tolfun": (
        2, True,
        "Converged: fun varies by {value:.3g}, below tolfun = {limit:.3g}; a smaller tolfun searches on.",
    ),
    "maxfevals": (3, False, "The budget is spent: the next generation would exceed maxfevals = {limit}."),
    "maxiter": (4, False, "The budget is spent: maxiter = {limit} generations are done."),
    "maxtime": (5, False, "Time is up: {value:.3g} s have passed, maxtime = {limit:.3g} s."),
    "callback": (6, False, "The callback asked to stop."),
    "interrupted": (7, False, "Interrupted from the keyboard; x is the best so far."),
    "numerical": (8, False, "Numerical trouble: sigma = {value}; check the scale of fun and sigma0."),
    "diverged": (
        9, False,
        "Diverged: sigma grew to {value:.3g}; fun may be unbounded below, or needs bounds.",
    ),
    "stagnation": (
        10, False,
        "Stagnated: no progress over the last {value:.0f} generations, half of the run; restarts= tries "
        "elsewhere, a larger popsize averages noise out, stagnation=False goes on.",
    ),
    "flat": (
        11, False,
        "Flat: all candidates had the same value for {value:.0f} generations; a larger sigma0 may see "
        "beyond the plateau, restarts= tries elsewhere.",
    ),
    "allowance": (
        13, False,
        "This restart's share of {limit} evaluations is used; more restarts= or a larger maxfevals goes on.",
    ),
    "failures": (
        12, False,
        "Every evaluation failed for {value:.0f} generations in a row; result.errors holds the first few.",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Stop:
    """Why a run ended."""

    reason: str
    value: float = math.nan
    limit: float = math.nan

    @property
    def status(self) -> int:
        """A number for each reason, 0 for a target that was reached."""
        return REASONS[self.reason][0]

    @property
    def success(self) -> bool:
        """Whether the run did what it was asked to do."""
        return REASONS[self.reason][1]

    @property
    def message(self) -> str:
        """The reason in a plain sentence that names the argument to change."""
        return REASONS[self.reason][2].format(value=self.value, limit=self.limit)


@dataclass(frozen=True)
class Limits:
    """Budgets and a target; None means no limit."""

    maxfevals: int | None = None
    maxiter: int | None = None
    maxtime: float | None = None
    ftarget: float | None = None

    def __post_init__(self) -> None:
        for name in ("maxfevals", "maxiter", "maxtime"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, or None for no limit; got {value!r}")
        if self.ftarget is not None and self.ftarget != self.ftarget:
            raise ValueError("ftarget must be a number, or None for no target; got NaN")

    def check(self, strategy: Strategy, seconds: float, tally: Tally | None = None) -> Stop | None:
        """Return why to stop before the next generation, or None; counts are the tally's if there is one."""
        done = strategy if tally is None else tally
        if self.ftarget is not None and done.best_fun <= self.ftarget:
            return Stop("ftarget", done.best_fun, self.ftarget)
        if self.maxiter is not None and done.generation >= self.maxiter:
            return Stop("maxiter", done.generation, self.maxiter)
        if self.maxfevals is not None and done.evaluations + strategy.popsize > self.maxfevals:
            return Stop("maxfevals", done.evaluations, self.maxfevals)
        if self.maxtime is not None and seconds >= self.maxtime:
            return Stop("maxtime", seconds, self.maxtime)
        if tally is not None and tally.failing >= FAILING:
            return Stop("failures", tally.failing)
        for reason, value in strategy.stop().items():
            return Stop(reason, value, getattr(strategy, reason, math.nan))
        return None

    def refuse_less_than_a_generation(self, popsize: int) -> None:
        """Raise ValueError if the budget does not allow a single generation."""
        if self.maxfevals is not None and self.maxfevals < popsize:
            raise ValueError(
                f"maxfevals={self.maxfevals} is less than one generation of popsize={popsize}: "
                "raise maxfevals or lower popsize"
            )


def describe(stop: Stop, ftarget: float | None) -> dict[str, Any]:
    """Return ``success``, ``status`` and ``message`` as a result shows them."""
    missed = ftarget is not None and stop.success and stop.reason != "ftarget"
    return {
        "success": stop.success and not missed,
        "status": stop.status,
        "message": stop.message + (f" The target ftarget = {ftarget:.6g} was not reached." if missed else ""),
    }
