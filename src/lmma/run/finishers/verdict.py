"""The verdict on a noisy run: its mean, re-evaluated, replaces the best evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.run.finishers import Update

if TYPE_CHECKING:
    from lmma.evaluation.base import Array, Values
    from lmma.layers.layer import NoNoise
    from lmma.layers.noise import Noise
    from lmma.methods import Strategy
    from lmma.run.generation import Evaluation
    from lmma.run.state import RunState
    from lmma.run.stopping import Ending


MEAN = "mean of the search"
EXACT = "best point of a restart without noise"
SEEN = "best observed point"
FAILS = f"fun fails at the {MEAN}"


@dataclass(frozen=True)
class Average:
    """Averages over new evaluations of a point, and of its constraints if there are any."""

    fun: float
    error: float = math.nan  # standard error of fun
    count: int = 0  # number of evaluations averaged
    raw: Values | None = None
    violation: float = 0.0


def verdict(
    state: RunState, evaluation: Evaluation, ending: Ending, maxfevals: int | None, tolerance: float
) -> Update | None:
    """Return the re-evaluated result of a noisy run; None if there is no noise.

    New evaluations decide between the mean, the averaged mean and the best point of restarts without noise.
    The chosen point is then evaluated again, so that the selection does not bias its value. With constraints,
    the best observed point is also compared, because means need not be feasible. If none is feasible, or the
    budget is too small, x stays the best observed point; so it does if fun fails at both means.
    """
    strategy, averaged = state.strategy, state.averaged
    assert averaged is not None  # noise= is set
    noise, count, constrained = strategy.noise, strategy.popsize, strategy.constraints is not None
    if not noise.found and averaged.level == math.inf:
        return Update(_no_verdict_sentence(noise)) if noise.differs else None
    points, names = [strategy.result.mean], [MEAN]
    level, average = averaged.best(strategy)
    if not constrained:
        points, names = [*points, average], [MEAN, MEAN]
        if averaged.exact_level < math.inf:
            points, names = [*points, averaged.exact_x.astype(strategy.dtype)], [*names, EXACT]
    elif noise.found:
        points, names = [*points, strategy.averaged_mean()], [MEAN, MEAN]
    if constrained and state.counters.best_x is not None:
        points, names = [*points, state.counters.best_x.copy()], [*names, SEEN]
    left = math.inf if maxfevals is None else maxfevals - state.counters.evaluations
    if ending.urgent or left < (len(points) + 1) * count:
        if constrained:
            return Update(_no_verdict_sentence(noise)) if noise.differs else None
        if averaged.exact_level < level - noise.spread:
            return _update(strategy, state, points[-1], Average(averaged.exact_level), EXACT)
        return _update(strategy, state, average, Average(level), MEAN)
    averages = [_average(state, evaluation, x, number * count) for number, x in enumerate(points)]
    least = [a.fun if a.fun == a.fun and a.violation <= tolerance else math.inf for a in averages]
    best = int(np.argmin(least))
    if constrained and least[best] == math.inf:
        return Update(_no_verdict_sentence(noise)) if noise.differs else None
    if least[best] == math.inf:  # fun fails at the means
        assert state.counters.best_x is not None  # noise was found in values
        points, names = [*points, state.counters.best_x.copy()], [*names, f"{SEEN} ({FAILS})"]
        averages.append(Average(state.counters.best_fun))
        best = len(points) - 1
    found = _average(state, evaluation, points[best], len(averages) * count)
    if math.isnan(found.fun):  # fun fails there from time to time
        found = averages[best]
    return _update(strategy, state, points[best], found, names[best])


def reserve(strategy: Strategy) -> int:
    """Return the number of evaluations that the verdict needs."""
    return 4 * strategy.popsize if strategy.noise.found else 0


def summary(noise: Noise | NoNoise, found: bool) -> dict[str, Any]:
    """Return ``result.noise``: the noise found and its treatment."""
    return {
        "quality": noise.quality,
        "found": found,
        "spread": noise.spread,
        "repeats": noise.repeats,
        "rate": noise.rate,
        "probes": noise.probes,
    }


def _average(state: RunState, evaluation: Evaluation, x: Array, first: int) -> Average:
    """Return averages over ``popsize`` evaluations of ``x``.

    If fun takes seeds, each evaluation gets a different one and they are made one at a time.
    """
    strategy = state.strategy
    count = strategy.popsize
    rows: Array = np.tile(x, (count, 1)).astype(strategy.dtype)
    values, raw, worst = [], [], []
    for number, block in enumerate(np.split(rows, count) if evaluation.seeded else [rows]):
        values.append(evaluation(strategy, block, first + number))
        report = state.constraint_report(block, values[-1], evaluation.evaluate.constraint_values)
        if report is not None:
            raw.append(report.raw)
            worst.append(report.violations)
    every = np.concatenate(values)
    state.counters.count(every, None)
    there = every[np.isfinite(every)]
    if len(there) == 0:
        return Average(math.nan)
    error = float(there.std(ddof=1)) / math.sqrt(len(there)) if len(there) > 1 else math.nan
    if not raw:
        return Average(float(there.mean()), error, len(there))
    violation = float(np.nanmean(np.concatenate(worst)))
    return Average(float(there.mean()), error, len(there), np.nanmean(np.vstack(raw), axis=0), violation)


def _update(strategy: Strategy, state: RunState, x: Array, found: Average, name: str) -> Update:
    fields: dict[str, Any] = {"fun_error": found.error, "fun_seen": state.counters.best_fun}
    if strategy.noise.treatment is not None:
        fields["noise"] = summary(strategy.noise, True)
    if found.raw is not None:
        assert state.constraints is not None
        fields |= {"maxcv": found.violation, "constr": state.constraints.by_constraint(found.raw)}
    text = f"{_noise_sentence(strategy.noise)}: x is the {name}, "
    if found.count:
        text += f"fun the average of {found.count} new evaluations, {found.fun:.6g} +- {found.error:.2g}."
    elif name.startswith((SEEN, EXACT)):
        text += "fun its observed value, which is probably too low: new evaluations failed."
    else:
        text += "fun the average of recent candidates."
    return Update(text, x, found.fun, fields, keeps_seen=True)


def _no_verdict_sentence(noise: Noise | NoNoise) -> str:
    why = "and no feasible mean was confirmed" if noise.found else "but this hardly affects ranks"
    return f"{_noise_sentence(noise)}, {why}: x is the best observed point, so fun is probably too low."


def _noise_sentence(noise: Noise | NoNoise) -> str:
    """Return the beginning of a sentence about noise."""
    spread = f" by about {noise.spread:.3g}" if noise.spread > 0 else ""
    return f"Values of fun differ between calls{spread}"
