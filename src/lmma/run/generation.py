"""Generation after generation: ask, evaluate, tell, count, observe, and ask the rules whether to stop."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lmma.evaluation.base import Array, Values
from lmma.evaluation.failures import words_of
from lmma.run.endings import Stop
from lmma.run.noise import evaluated, evaluated_again, rows_to_repeat
from lmma.run.stopping import Rule, Situation
from lmma.strategies.parts.memory import in_words
from lmma.strategies.parts.noise import NONE

if TYPE_CHECKING:
    from lmma.run.constraints import Judged
    from lmma.run.observers import Observer
    from lmma.run.run import Run

T = TypeVar("T")

ATTEMPTS = 10  # how often a failed candidate is drawn anew under on_error="resample"


def run_until_stopped(run: Run, observers: Sequence[Observer]) -> Stop:
    """Let the present strategy of ``run`` search until a rule says why to stop; return that reason.

    An observer that raises ``StopIteration`` ends the search. Ctrl-C is raised, never in the middle of an
    update; the run then holds the best so far. A strategy or a stopping rule that fails after something has
    been evaluated ends the search too; one that fails before is a mistake, and raises.
    """
    counters, rules, interrupts = run.counters, run.rules, run.interrupts
    counters.consistent = True  # whatever became of the strategy before
    now = Situation(run.strategy, counters)
    watching = [rule for rule in rules if type(rule).watch is not Rule.watch]
    start = time.perf_counter() - counters.seconds
    try:
        while True:  # [A1:3]
            interrupts.check()
            now.seconds = counters.seconds = time.perf_counter() - start
            stop = None if run.companion is None else run.companion.check(run)
            stop = stop or _of_the_strategy(_first_stop, rules, now)
            if stop is not None:  # [A1:21]
                return stop
            one_generation(run, watching)
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
    except MemoryError as error:
        strategy = run.strategy
        if counters.evaluations == 0:
            what = f"{strategy.name} with n={strategy.n}, popsize={strategy.popsize}"
            raise in_words(error, what) from None
        return Stop("memory", "restarts", strategy.popsize)


class StrategyFailed(Exception):
    """A strategy or a rule raised ``error``; nothing else that raises in a generation is taken for it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(type(error)))
        self.error = error


def _first_stop(rules: Sequence[Rule], now: Situation) -> Stop | None:
    """Return what the first rule that stops the search says."""
    for rule in rules:
        stop = rule.check(now)
        if stop is not None:
            return stop
    return None


def _of_the_strategy(call: Callable[..., T], *args: Any) -> T:
    """Return ``call(*args)``, of a strategy or a rule; what it raises is told apart from what fun raises."""
    try:
        return call(*args)
    except (np.linalg.LinAlgError, MemoryError):  # endings of their own
        raise
    except Exception as error:
        raise StrategyFailed(error) from error


def one_generation(run: Run, watching: Sequence[Rule]) -> None:
    """Take one generation from candidates to what is learned from them, and show the values to rules."""
    strategy, evaluate, counters, constraints = run.strategy, run.evaluate, run.counters, run.constraints
    rows = NONE if run.options.noise is None else rows_to_repeat(run)
    again = evaluate.on_error == "resample"
    # Some of the candidates alone are evaluated from a buffer of their own, which must not be this one.
    apart = again or len(rows) % strategy.popsize or run.seeds
    out = None if apart else evaluate.buffer(strategy.popsize, strategy.n, strategy.dtype)
    evaluate.attend(strategy)
    candidates = _of_the_strategy(strategy.ask, out)
    values = evaluated(run, candidates) if run.seeds else run.interrupts.cut_short(evaluate, candidates)
    late = evaluate.late
    judged = None
    if constraints.parts or evaluate.beside is not None:
        judged = constraints.judge(candidates, values, evaluate.beside)
    counters.consistent = False
    counters.take(candidates, values, late, judged)
    if again and late is None:
        values, judged = _with_failed_drawn_anew(run, candidates, values, judged)
    more: dict[str, Values] = {}  # what is told besides values
    if len(rows):
        more["again"] = evaluated_again(run, candidates, rows)
    if judged is not None:
        constraints.prepare(strategy)
        more["constraints"] = judged.g
    evaluate.told(values, **more)
    _of_the_strategy(functools.partial(strategy.tell, **more) if more else strategy.tell, values)
    ranked = strategy.ranked_values if judged is None else judged.watched(values)
    counters.failing = 0 if len(ranked) else counters.failing + 1
    if strategy.noise.found and len(ranked) and strategy.average_fun == strategy.average_fun:
        ranked = np.array([strategy.average_fun])  # what came down, luck apart
    for rule in watching:
        _of_the_strategy(rule.watch, ranked)
    counters.generation += 1
    counters.consistent = True


def _with_failed_drawn_anew(
    run: Run, candidates: Array, values: Values, judged: Judged | None
) -> tuple[Values, Judged | None]:
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
        said = run.constraints.judge(fresh, values[failed], run.evaluate.beside)
        counters.take(fresh, values[failed], run.evaluate.late, said)
        if said is not None:
            judged = judged or run.constraints.unknown(len(candidates))
            judged.replaced(failed, said)
    return values, judged
