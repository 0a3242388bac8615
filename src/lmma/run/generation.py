"""The search loop: ask, evaluate, tell, count, observe, and check the stopping rules."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lmma.evaluation.base import Array, Evaluator, Values
from lmma.evaluation.failures import message_of
from lmma.run.stopping import ENDINGS, EvaluationBudget, Rule, Situation, Stop

if TYPE_CHECKING:
    from lmma.methods import Strategy
    from lmma.numerics.recombination import Indices
    from lmma.run.interrupts import Interrupts
    from lmma.run.observers import Observer
    from lmma.run.state import RunState
    from lmma.run.user_constraints import ConstraintReport

T = TypeVar("T")

ATTEMPTS = 10  # draws per failed candidate with on_error="resample"


@dataclass(frozen=True)
class Evaluation:
    """Evaluates points, interruptible by Ctrl-C, and passes seeds to fun if it takes any."""

    evaluate: Evaluator
    interrupts: Interrupts
    seeded: bool = False

    @functools.cached_property
    def buffered(self) -> bool:
        """True if the evaluator provides the array for candidates."""
        return not self.seeded and type(self.evaluate).buffer is not Evaluator.buffer

    def buffer(self, strategy: Strategy) -> Array | None:
        """Return an array for the next batch."""
        return self.evaluate.buffer(strategy.batch_size, strategy.n, strategy.dtype)

    def __call__(self, strategy: Strategy, points: Array, repeat: int = 0) -> Values:
        """Return the values of ``points``; with seeds, those of the ``repeat``-th repeat of this batch."""
        if not self.seeded:
            return self.interrupts.call_interruptibly(self.evaluate, points)
        seed = (strategy.round_seed(repeat), strategy.round_number(repeat))
        return self.interrupts.call_interruptibly(self.evaluate, points, seed)


def search(
    state: RunState,
    evaluation: Evaluation,
    budget: EvaluationBudget,
    observers: Sequence[Observer],
    *,
    saves: bool = False,
) -> Stop:
    """Run the current strategy until a rule stops it; return the reason.

    An observer that raises ``StopIteration`` ends the search. Ctrl-C raises ``KeyboardInterrupt``, but never
    during an update; the state then contains the best point so far. If the strategy or a stopping rule fails,
    the search ends; before the first evaluation, the exception is raised instead. ``saves`` is whether the
    state will be saved.
    """
    counters, rules, interrupts = state.counters, state.rules, evaluation.interrupts
    recorder = state.recorder
    state.consistent = True  # also if the previous strategy failed
    now = Situation(state.strategy, counters, key=state.key)
    watching = [rule for rule in rules if type(rule).watch is not Rule.watch]
    start = time.perf_counter() - counters.seconds
    try:
        while True:  # [A1:3]
            interrupts.check()
            now.seconds = counters.seconds = time.perf_counter() - start
            stop = _call_strategy(_first_stop, rules, now)
            if stop is not None:  # [A1:21]
                return stop
            complete = one_batch(state, evaluation, budget, watching, saves=saves)
            recording = recorder is not None and recorder.is_due()
            if recording or observers:
                counters.seconds = time.perf_counter() - start
                progress = state.progress()
                if recorder is not None and recording:
                    recorder.keep(progress)
                for observe in observers:
                    observe(progress)
            if not complete:
                return budget.stop(counters)
    except StopIteration:
        return Stop(ENDINGS["callback"])
    except np.linalg.LinAlgError as error:  # a matrix can no longer be decomposed
        if error is evaluation.evaluate.raised:
            raise
        state.consistent = True
        return Stop(ENDINGS["numerical"], state.strategy.sigma)
    except StrategyFailed as failed:  # during an update: the state must not be saved
        if counters.evaluations == 0:
            raise failed.error from None
        return Stop(ENDINGS["strategy"], error=f"{type(failed.error).__name__}: {message_of(failed.error)}")
    except MemoryError as error:
        if error is evaluation.evaluate.raised:
            raise
        strategy = state.strategy
        if counters.evaluations == 0:
            from lmma.numerics.memory import not_enough_memory

            what = f"{strategy.name} with n={strategy.n}, popsize={strategy.popsize}"
            raise not_enough_memory(error, what) from None
        return Stop(ENDINGS["memory"], strategy.popsize)


class StrategyFailed(Exception):
    """Wraps ``error``, raised by a strategy or a rule, to distinguish it from other exceptions."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(type(error)))
        self.error = error


def _first_stop(rules: Sequence[Rule], now: Situation) -> Stop | None:
    """Return the result of the first rule that stops the search, or None."""
    for rule in rules:
        stop = rule.check(now)
        if stop is not None:
            return stop
    return None


def _call_strategy(call: Callable[..., T], *args: Any) -> T:
    """Return ``call(*args)``; wrap exceptions so that they are not mistaken for the objective's."""
    try:
        return call(*args)
    except (np.linalg.LinAlgError, MemoryError):  # have separate endings
        raise
    except Exception as error:
        raise StrategyFailed(error) from error


def one_batch(
    state: RunState,
    evaluation: Evaluation,
    budget: EvaluationBudget,
    watching: Sequence[Rule],
    *,
    saves: bool = False,
) -> bool:
    """Ask for a batch, evaluate it, tell the values, and pass them to the rules.

    Return False if the budget allows only the first rows. They are evaluated and counted, but not told.
    """
    strategy, evaluate, counters = state.strategy, evaluation.evaluate, state.counters
    steady = strategy.steady
    strategy_observer = evaluate.strategy_observer
    repeats = None if state.averaged is None else budget.repeats(strategy, counters)
    resample = evaluate.on_error == "resample"
    # Repeated and resampled candidates use the evaluator's buffer, so the batch must not.
    separate = resample or (repeats is not None and len(repeats) % strategy.batch_size)
    out = evaluation.buffer(strategy) if evaluation.buffered and not separate else None
    if strategy_observer is not None:
        strategy_observer.on_ask(strategy)
    candidates = _call_strategy(strategy.ask, out)
    rows = allowed = len(candidates)
    if strategy.cuts_batches:
        allowed = budget.rows(strategy, counters, rows)
    elif budget.maxfevals is not None and counters.evaluations + rows > budget.maxfevals:
        raise StrategyFailed(ValueError(f"ask() returned {rows} rows, more than batch_size"))
    if allowed < rows:
        if saves:
            state.freeze_saved_state()
        candidates = candidates[:allowed]
    if evaluation.seeded:
        values = evaluation(strategy, candidates)
    else:
        values = evaluation.interrupts.call_interruptibly(evaluate, candidates)
    if evaluate.untested and (allowed < rows or counters.evaluations + rows >= strategy.popsize):
        evaluate.check_first_generation()
    late = evaluate.late
    report = None
    if evaluate.constraint_values is not None or state.constraints is not None:
        report = state.constraint_report(candidates, values, evaluate.constraint_values)
    state.consistent = False
    counters.take(candidates, values, late, report)
    if allowed < rows:
        state.consistent = True
        return False
    if resample and late is None and not strategy.asks_for_neighbours:
        values, report = _resample_failed(state, evaluation, budget, candidates, values, report)
    more: dict[str, Values] = {}  # further arguments of tell()
    if repeats is not None and len(repeats):
        more["repeats"] = _evaluate_repeats(state, evaluation, candidates, repeats)
    if report is not None:
        assert state.constraints is not None
        state.constraints.prepare(strategy)
        more["constraints"] = report.g
    if strategy_observer is not None:
        strategy_observer.on_tell(values, more)
    _call_strategy(functools.partial(strategy.tell, **more) if more else strategy.tell, values)
    ranked = strategy.ranked_values if report is None else report.progress_values(values)
    if len(ranked):
        counters.failing = 0
    else:
        counters.failing += min(1.0, rows / strategy.popsize)
    if state.averaged is not None and strategy.noise.found and len(ranked):
        average = strategy.average_fun
        ranked = np.array([average]) if average == average else ranked  # the minimum would be biased by noise
    for rule in watching if steady else ():
        _call_strategy(rule.watch, ranked)
    counters.generation += 1
    state.consistent = True
    return True


def _evaluate_repeats(state: RunState, evaluation: Evaluation, candidates: Array, rows: Indices) -> Values:
    """Return the values of ``rows``, evaluated again in blocks of at most one generation."""
    values, size = np.empty(len(rows)), len(candidates)
    strategy_observer = evaluation.evaluate.strategy_observer
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        if strategy_observer is not None:
            strategy_observer.on_repeat(some)
        every = len(some) == size and np.array_equal(some, np.arange(size))
        fresh = evaluation(state.strategy, candidates if every else candidates[some], 1 + first // size)
        state.counters.count(fresh, evaluation.evaluate.late)
        values[first : first + size] = fresh
    return values


def _resample_failed(
    state: RunState,
    evaluation: Evaluation,
    budget: EvaluationBudget,
    candidates: Array,
    values: Values,
    report: ConstraintReport | None,
) -> tuple[Values, ConstraintReport | None]:
    """Replace failed candidates by new ones, in at most ``ATTEMPTS`` draws; return values and report."""
    strategy, counters, evaluate = state.strategy, state.counters, evaluation.evaluate
    for attempt in range(1, ATTEMPTS + 1):
        failed = np.flatnonzero(np.isnan(values))
        if budget.maxfevals is not None:
            failed = failed[: max(0, budget.maxfevals - counters.evaluations)]
        if len(failed) == 0:
            break
        _call_strategy(strategy.resample, failed, attempt)
        if evaluate.strategy_observer is not None:
            evaluate.strategy_observer.on_resample(failed, attempt)
        fresh = candidates[failed]
        values = values.copy()
        values[failed] = evaluation(strategy, fresh)
        fresh_report = state.constraint_report(fresh, values[failed], evaluate.constraint_values)
        counters.take(fresh, values[failed], evaluate.late, fresh_report)
        if fresh_report is not None:
            assert state.constraints is not None
            report = report or state.constraints.unknown(len(candidates))
            report.replaced(failed, fresh_report)
    return values, report
