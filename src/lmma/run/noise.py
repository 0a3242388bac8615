"""Noise in a run: candidates evaluated again, the same random numbers for all, and a result without luck."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.evaluation import Evaluator, evaluator
from lmma.evaluation.base import Array, Values
from lmma.strategies.parts.recombination import Indices

if TYPE_CHECKING:
    from lmma.run.run import Run
    from lmma.strategies import Strategy

IN_A_HURRY = ("interrupted", "callback", "failures", "maxtime")  # then nothing more is evaluated


def evaluated(run: Run, candidates: Array, repeat: int = 0) -> Values:
    """Return the values of candidates of this generation, evaluated for the ``repeat``-th time again."""
    if run.seeds:
        strategy = run.strategy
        candidates = run.evaluate.with_seed(
            candidates, strategy.round_seed(repeat), strategy.round_number(repeat)
        )
    return run.interrupts.cut_short(run.evaluate, candidates)


def rows_to_repeat(run: Run) -> Indices:
    """Return which candidates of the next generation are evaluated again, as far as the budget allows."""
    strategy, budget = run.strategy, run.options.maxfevals
    rows = strategy.again
    spent = run.counters.evaluations + strategy.popsize + len(rows)
    return rows if budget is None or spent <= budget else rows[:0]


def evaluated_again(run: Run, candidates: Array, rows: Indices) -> Values:
    """Return the values of ``rows``, evaluated once more, a generation at a time."""
    values, size = np.empty(len(rows)), run.strategy.popsize
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        run.evaluate.repeated(some)
        x = candidates if len(some) == size else candidates[some]
        fresh = evaluated(run, x, 1 + first // size)
        run.counters.count(fresh, run.evaluate.late)
        values[first : first + size] = fresh
    return values


def reserve(strategy: Strategy) -> int:
    """Return how many evaluations are kept for the end, when the result is evaluated afresh."""
    return (3 if strategy.constraints is None else 4) * strategy.popsize if strategy.noise.found else 0


class Centre:
    """The average of the mean over the last generations, the best one over all restarts."""

    def __init__(self, n: int) -> None:
        self.level = math.inf
        self.x: Array = np.zeros(n)

    def take(self, strategy: Strategy) -> None:
        """Keep the averaged mean of a strategy that has ended, if its values were lower than others'."""
        noise = strategy.noise
        if noise.found and noise.level < self.level:
            self.level, self.x = noise.level, strategy.averaged_mean()

    def get_state(self) -> dict[str, Any]:
        """Return what is kept, as named arrays and numbers."""
        return {"level": self.level, "x": self.x.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`."""
        self.level, self.x = float(state["level"]), np.array(state["x"])


@dataclass(frozen=True)
class Average:
    """What fresh evaluations say of a point; with constraints also what those gave, on average."""

    fun: float
    error: float = math.nan  # of that, a standard error
    count: int = 0  # evaluations that were averaged
    raw: Values | None = None
    violation: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """Where a noisy run ends: a point, and a fresh average of its value."""

    x: Array
    found: Average
    seen: bool = False  # whether it is the best point seen, and no mean


def answer_so_far(run: Run) -> tuple[float, Array]:
    """Return the lowest average of a search with noise, over all restarts, and the averaged mean there."""
    strategy, centre = run.strategy, run.centre
    if centre.level < strategy.noise.level or not strategy.noise.found:
        return centre.level, centre.x.astype(strategy.dtype)
    return strategy.noise.level, strategy.averaged_mean()


def settle(run: Run, reason: str) -> Verdict | None:
    """Return the result of a run with noise, after evaluating it afresh; None where there is no noise.

    The mean and its averages are compared by fresh values; the chosen one is then evaluated again, so that
    not even that choice is luck. With constraints the best point seen is compared, too: means need not be
    feasible. Where none of these is, or there is no budget left to know, there is no verdict.
    """
    strategy, count = run.strategy, run.strategy.popsize
    noise, constrained = strategy.noise, strategy.constraints is not None
    if not noise.found and run.centre.level == math.inf:
        return None
    points = [strategy.result.mean]
    if not constrained:
        points.append(answer_so_far(run)[1])
    elif noise.found:
        points.append(strategy.averaged_mean())
    seen = len(points)  # the place of the best point seen, if there is one
    if constrained and run.counters.best_x is not None:
        points.append(run.counters.best_x.copy())
    budget = run.options.maxfevals
    left = math.inf if budget is None else budget - run.counters.evaluations
    if reason in IN_A_HURRY or left < (len(points) + 1) * count:
        return None if constrained else Verdict(points[-1], Average(min(noise.level, run.centre.level)))
    evaluate = evaluator_of_points(run)
    try:
        averages = [_average(run, evaluate, x, number * count) for number, x in enumerate(points)]
        tolerance = run.options.feasibility_tol
        least = [a.fun if a.fun == a.fun and a.violation <= tolerance else math.inf for a in averages]
        best = int(np.argmin(least))
        if constrained and least[best] == math.inf:
            return None
        found = _average(run, evaluate, points[best], len(points) * count)
    finally:
        if evaluate is not run.evaluate:
            evaluate.close()
    return Verdict(points[best], found, seen=best == seen)


def evaluator_of_points(run: Run) -> Evaluator:
    """Return what evaluates points that are no candidates: replicas only know candidates."""
    if not run.evaluate.makes_candidates:
        return run.evaluate
    options = run.options
    return evaluator(run.objective, options.args, options.on_error, vectorized=options.vectorized)


def _average(run: Run, evaluate: Evaluator, x: Array, first: int) -> Average:
    """Return what as many values of ``x`` as there are candidates say of it.

    If fun takes seeds each has its own, and they are evaluated one at a time.
    """
    count, strategy = run.strategy.popsize, run.strategy
    rows: Array = np.tile(x, (count, 1)).astype(strategy.dtype)
    values, raw, worst = [], [], []
    for number, block in enumerate(np.split(rows, count) if run.seeds else [rows]):
        seeded = _seeded(run, evaluate, block, first + number) if run.seeds else block
        values.append(run.interrupts.cut_short(evaluate, seeded))
        judged = run.constraints.judge(block, values[-1], evaluate.beside)
        if judged is not None:
            raw.append(judged.raw)
            worst.append(judged.violations)
    every = np.concatenate(values)
    run.counters.count(every, None)
    there = every[np.isfinite(every)]
    if len(there) == 0:
        return Average(math.nan)
    error = float(there.std(ddof=1)) / math.sqrt(len(there)) if len(there) > 1 else math.nan
    if not raw:
        return Average(float(there.mean()), error, count)
    violation = float(np.nanmean(np.concatenate(worst)))
    return Average(float(there.mean()), error, count, np.nanmean(np.vstack(raw), axis=0), violation)


def _seeded(run: Run, evaluate: Evaluator, rows: Array, number: int) -> Array:
    strategy = run.strategy
    return evaluate.with_seed(rows, strategy.round_seed(number), strategy.round_number(number))


def words(run: Run) -> str:
    """Return what a user should know of the noise of a run that has ended; empty where there is none."""
    verdict, noise = run.verdict, run.strategy.noise
    spread = f"by about {noise.spread:.3g}" if noise.spread > 0 else "as noise does"
    text = f"Values of fun differ from call to call {spread}"
    if verdict is None:
        if not (run.settled and noise.differs):
            return ""
        why = "and with constraints" if noise.found else "but ranks hardly do;"
        return f"{text}, {why} x is the best point seen, and its value in part luck."
    text += f": x is the {'best point seen' if verdict.seen else 'mean of the search'}, fun the average of "
    found = verdict.found
    if found.count:
        return text + f"{found.count} fresh values, {found.fun:.6g} +- {found.error:.2g}."
    return text + "recent candidates."


def summary(run: Run) -> dict[str, float]:
    """Return ``result.noise``: what was found, and what was done about it."""
    noise = run.strategy.noise
    return {
        "quality": noise.quality,
        "found": noise.found or run.verdict is not None,
        "spread": noise.spread,
        "repeats": noise.repeats,
        "rate": noise.rate,
        "probes": noise.probes,
    }
