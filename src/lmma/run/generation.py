"""The loop every run goes through: ask, repair, evaluate, tell, observe, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from lmma.evaluation import Evaluator
from lmma.evaluation.base import Array, Values
from lmma.run.counters import Tally
from lmma.run.observers import Observer, Progress
from lmma.run.rules import Rule
from lmma.run.stopping import Limits, Stop
from lmma.strategies import Strategy
from lmma.strategies.parts.bounds import Box

Guard = Callable[[Evaluator, Array], Values]

ATTEMPTS = 10  # how often a failed candidate is drawn anew under on_error="resample"


def run(
    strategy: Strategy,
    evaluate: Evaluator,
    limits: Limits,
    observers: Iterable[Observer] = (),
    *,
    box: Box | None = None,
    rules: Sequence[Rule] = (),
    tally: Tally | None = None,
    guard: Guard | None = None,
    catch_interrupt: bool = False,
) -> Stop:
    """Run ``strategy`` until a rule says why to stop; return that reason.

    An observer that raises ``StopIteration`` ends the run. With ``catch_interrupt`` so does Ctrl-C;
    otherwise it is raised, and the strategy holds the best so far. ``tally`` counts over several calls;
    ``guard(evaluate, candidates)`` is called in place of ``evaluate(candidates)``.
    """
    observers = tuple(observers)
    tally = Tally() if tally is None else tally
    start = time.perf_counter() - tally.seconds
    try:
        while True:  # [A1:3]
            stop = _reason(strategy, limits, rules, tally, time.perf_counter() - start)  # [A1:21]
            if stop is not None:
                return stop
            _generation(strategy, evaluate, limits, box, rules, tally, guard or _unguarded)
            tally.seconds = time.perf_counter() - start
            progress = snapshot(strategy, tally)
            for observe in observers:
                observe(progress)
    except StopIteration:
        return Stop("callback")
    except np.linalg.LinAlgError:  # a matrix that cannot be decomposed any more
        tally.whole = True
        return Stop("numerical", strategy.sigma)
    except KeyboardInterrupt:
        if not catch_interrupt:
            raise
        return Stop("interrupted")


def _generation(
    strategy: Strategy,
    evaluate: Evaluator,
    limits: Limits,
    box: Box | None,
    rules: Sequence[Rule],
    tally: Tally,
    guard: Guard,
) -> None:
    """Take one generation from candidates to what is learned from them."""
    again = evaluate.on_error == "resample"
    # Candidates drawn again are evaluated from a buffer of their own, which must not be this one.
    out = None if again else evaluate.buffer(strategy.popsize, strategy.n, strategy.dtype)
    evaluate.attend(strategy, box)
    candidates = strategy.ask(out)
    if box is not None:
        box.repair(candidates)
    values = guard(evaluate, candidates)
    late = evaluate.late
    tally.whole = False
    tally.take(candidates, values, late)
    if again and late is None:
        values = _drawn_again(strategy, evaluate, limits, box, candidates, values, tally, guard)
    tally.failing = tally.failing + 1 if np.isnan(values).all() else 0
    evaluate.told(values)
    strategy.tell(values if box is None else box.penalised(values))
    for rule in rules:
        rule.watch(values)
    tally.generation += 1
    tally.whole = True


def _drawn_again(
    strategy: Strategy,
    evaluate: Evaluator,
    limits: Limits,
    box: Box | None,
    candidates: Array,
    values: Values,
    tally: Tally,
    guard: Guard,
) -> Values:
    """Return values in which failed candidates have been replaced by new ones, as far as that succeeds."""
    for attempt in range(1, ATTEMPTS + 1):
        failed = np.flatnonzero(np.isnan(values))
        if limits.maxfevals is not None:
            failed = failed[: max(0, limits.maxfevals - tally.evaluations)]
        if len(failed) == 0:
            break
        strategy.resample(failed, attempt)
        evaluate.redrawn(failed, attempt)
        if box is not None:
            box.repair(candidates, failed)
        fresh = candidates[failed]
        values = values.copy()
        values[failed] = guard(evaluate, fresh)
        tally.take(fresh, values[failed], evaluate.late)
    return values


def _reason(
    strategy: Strategy, limits: Limits, rules: Sequence[Rule], tally: Tally, seconds: float
) -> Stop | None:
    """Return why to stop before the next generation, or None."""
    stop = limits.check(strategy, seconds, tally)
    for rule in rules:
        stop = stop or rule.check()
    return stop


def _unguarded(evaluate: Evaluator, candidates: Array) -> Values:
    return evaluate(candidates)


def snapshot(strategy: Strategy, tally: Tally) -> Progress:
    """Return the run as observers see it."""
    return Progress(
        tally.evaluations,
        tally.generation,
        tally.best_fun,
        strategy.sigma,
        tally.failures,
        tally.seconds,
        step=strategy.spread,
        popsize=strategy.popsize,
        restarts=len(tally.legs),
        late=tally.late,
    )
