"""Generation after generation: ask, evaluate, tell, count, observe, and ask the rules whether to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lmma.evaluation.base import Array, Values
from lmma.evaluation.failures import words_of
from lmma.run.noise import evaluated, evaluated_again, rows_to_repeat
from lmma.run.stopping import Situation, Stop
from lmma.strategies.parts.noise import mean_of_repeats

if TYPE_CHECKING:
    from lmma.run.observers import Observer
    from lmma.run.run import Run

T = TypeVar("T")

ATTEMPTS = 10  # how often a failed candidate is drawn anew under on_error="resample"


def run_until_stopped(run: Run, observers: Sequence[Observer]) -> Stop:
    """Let the present strategy of ``run`` search until a rule says why to stop; return that reason.

    An observer that raises ``StopIteration`` ends the search. Ctrl-C is raised, never in the middle of an
    update; the run then holds the best so far. A strategy that fails after something has been evaluated ends
    the search too; one that never gave a candidate is a mistake, and raises.
    """
    counters = run.counters
    counters.consistent = True  # whatever became of the strategy before
    now = Situation(run.strategy, counters)
    start = time.perf_counter() - counters.seconds
    try:
        while True:  # [A1:3]
            run.interrupts.check()
            now.seconds = counters.seconds = time.perf_counter() - start
            for rule in run.rules:
                stop = rule.check(now)
                if stop is not None:  # [A1:21]
                    return stop
            one_generation(run)
            if observers:
                counters.seconds = time.perf_counter() - start
                progress = run.progress()
                for observe in observers:
                    observe(progress)
    except StopIteration:
        return Stop("callback")
    except np.linalg.LinAlgError:  # a matrix that cannot be decomposed any more
        counters.consistent = True
        return Stop("numerical", None, run.strategy.sigma)
    except StrategyFailed as failed:  # in the middle of an update: the state is not fit to be saved
        if counters.evaluations == 0:
            raise failed.error from None
        return Stop("strategy", error=f"{type(failed.error).__name__}: {words_of(failed.error)}")
    except MemoryError:
        if counters.evaluations == 0:
            raise
        return Stop("memory", "restarts", run.strategy.popsize)


class StrategyFailed(Exception):
    """A strategy raised ``error``; nothing else that raises in a generation is taken for it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(type(error)))
        self.error = error


def _of_the_strategy(call: Callable[..., T], *args: Any) -> T:
    """Return ``call(*args)``; what it raises is told apart from what the objective raises."""
    try:
        return call(*args)
    except (np.linalg.LinAlgError, MemoryError):  # endings of their own
        raise
    except Exception as error:
        raise StrategyFailed(error) from error


def one_generation(run: Run) -> None:
    """Take one generation from candidates to what is learned from them."""
    strategy, evaluate, counters = run.strategy, run.evaluate, run.counters
    rows = rows_to_repeat(run)
    again = evaluate.on_error == "resample"
    # Some of the candidates alone are evaluated from a buffer of their own, which must not be this one.
    apart = again or len(rows) % strategy.popsize or run.seeds
    out = None if apart else evaluate.buffer(strategy.popsize, strategy.n, strategy.dtype)
    evaluate.attend(strategy)
    candidates = _of_the_strategy(strategy.ask, out)
    values = evaluated(run, candidates)
    late = evaluate.late
    counters.consistent = False
    counters.take(candidates, values, late)
    if again and late is None:
        values = _with_failed_drawn_anew(run, candidates, values)
    repeats = evaluated_again(run, candidates, rows)
    evaluate.told(values, repeats)
    if repeats is None:
        _of_the_strategy(strategy.tell, values)
    else:
        _of_the_strategy(partial(strategy.tell, again=repeats), values)
        values = mean_of_repeats(values, rows, repeats)
    ranked = np.sort(values)  # NaN goes last
    if ranked[-1] != ranked[-1]:
        ranked = ranked[~np.isnan(ranked)]
    counters.failing = 0 if len(ranked) else counters.failing + 1
    for rule in run.rules:
        rule.watch(ranked)
    counters.generation += 1
    counters.consistent = True


def _with_failed_drawn_anew(run: Run, candidates: Array, values: Values) -> Values:
    """Return values in which failed candidates have been replaced by new ones, as far as that succeeds."""
    counters, budget = run.counters, run.options.maxfevals
    for attempt in range(1, ATTEMPTS + 1):
        failed = np.flatnonzero(np.isnan(values))
        if budget is not None:
            failed = failed[: max(0, budget - counters.evaluations)]
        if len(failed) == 0:
            break
        _of_the_strategy(run.strategy.resample, failed, attempt)
        run.evaluate.redrawn(failed, attempt)
        fresh = candidates[failed]
        values = values.copy()
        values[failed] = evaluated(run, fresh)
        counters.take(fresh, values[failed], run.evaluate.late)
    return values
