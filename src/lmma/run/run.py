"""One run: set up its parts, search with restarts, call the finishers and return the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma._text import Spell, one_line
from lmma.evaluation import Evaluator, evaluator
from lmma.evaluation.objective import Seeded
from lmma.run.generation import Evaluation, search
from lmma.run.interrupts import Interrupts
from lmma.run.options import RunOptions
from lmma.run.setup import boundary_warnings, seed_keywords, setup, variable_names, with_space
from lmma.run.state import Plan, RunState, Stateful
from lmma.run.stopping import ENDINGS, Ending, Rule, Stop, budget_of, rules_for

if TYPE_CHECKING:  # optional features are imported on first use
    from lmma._files import Lock
    from lmma.methods import Strategy
    from lmma.run.archive.writer import ArchiveWriter
    from lmma.run.checkpoint import Checkpoint
    from lmma.run.finishers import Update
    from lmma.run.observers import Observer, Recorder
    from lmma.run.observers.json_log import JsonLog
    from lmma.run.observers.progress_line import ProgressLine
    from lmma.run.restarts import Schedule
    from lmma.run.result import RunResult

Finisher = Callable[[Evaluation, Ending], "Update | None"]


class Run:
    """A run with all its parts, ready to :meth:`execute`; see :func:`lmma.minimize` for the arguments.

    Parameters
    ----------
    fun, x0, sigma0
        The objective, the start and the initial step size.
    options : RunOptions
        All other arguments.
    evaluate : Evaluator, optional
        Replaces the evaluator that is created for ``fun``.
    observers : iterable of callables
        Called with a :class:`~lmma.run.observers.Progress` after each batch.
    rules : iterable of Rule
        Further stopping rules, checked before those from ``options``, and kept over restarts.
    parts : mapping
        Name -> further component to save with the run.

    Attributes
    ----------
    setup : Setup
        The start of the run, and the factory of its strategies.
    state : RunState
        The state of the run, which checkpoints save.
    seeds : tuple of str
        The seed keywords that ``fun`` takes.
    warnings : list of str
        Warnings for the user.
    stop : Stop or None
        The reason why the run ended.
    updates : list of Update
        Changes to the result made by finishers.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        x0: Any,
        sigma0: Any = None,
        options: RunOptions | None = None,
        *,
        evaluate: Evaluator | None = None,
        observers: Iterable[Observer] = (),
        rules: Iterable[Rule] = (),
        parts: Mapping[str, Stateful] | None = None,
    ) -> None:
        x0, options = with_space(x0, RunOptions() if options is None else options)
        if getattr(fun, "vectorized", False) is True:  # such as the objectives of lmma.integrations.torch
            options = options.replaced(vectorized=True)
        checkpoint = self.checkpoint = _checkpoint(options.checkpoint)
        if checkpoint is not None:
            options = options.replaced(method=checkpoint.method_to_continue(options.method))
        self.schedule = _schedule(options.restarts)
        self.setup = setup(fun, x0, sigma0, options)
        self.fun, self.options = fun, self.setup.options
        options, strategy = self.options, self.setup.first()
        self.seeds = seed_keywords(
            fun, options.args, options.common_random_numbers, variable_names(options.space)
        )
        self.objective = self.setup.objective(fun, self.seeds)
        if self.seeds:
            self.objective = Seeded(self.objective, self.seeds, strategy.dtype.name)
        self.evaluate = evaluate or self._evaluator(options.workers, options.timeout, options.quorum)
        if self.setup.constraints is not None:
            self.evaluate.constraint_names = self.setup.constraints.function_names
        self._rules, self._observers = tuple(rules), tuple(observers)
        self.archive: ArchiveWriter | None = None
        self._varies = options.noise is not None or bool(self.seeds)  # values vary between calls
        parts = dict(parts or {})
        if evaluate is None:
            parts |= self._remember_designs()
        elif options.archive is not None:
            raise ValueError("archive cannot be combined with a custom evaluator")
        self.state = RunState(
            strategy,
            (*self._rules, *rules_for(options, strategy)),
            self._start_strategy,
            self.evaluate.record,
            constraints=self.setup.constraints,
            make_constraints=self.setup.undeclared_constraints,
            averaged=_averaged(options, strategy),
            recorder=_recorder(options.history),
            parts=parts,
        )
        self.first_popsize = strategy.popsize  # restarts and noise handling may change it later
        self.warnings = boundary_warnings(self.setup)
        self.stop: Stop | None = None
        self.updates: list[Update] = []
        self._lock: Lock | None = None
        try:
            self.log = self._prepare_files()
        except BaseException:
            self._release()
            raise
        if self.schedule is not None:
            from lmma.run.restarts import memory_warning

            finished = self.state.finished
            first = finished[0].popsize if finished else self.state.plan.popsize
            if warning := memory_warning(self.schedule, strategy, first, options.maxfevals):
                self.warnings.append(warning)

    def execute(self, *, interrupts: Interrupts | None = None) -> RunResult:
        """Search until a rule, a callback or Ctrl-C ends the run; return the result."""
        interrupts = interrupts or Interrupts()
        with interrupts:
            try:
                self._search(interrupts)
                assert self.stop is not None
                self._finish(self.stop, interrupts)
            finally:
                self._release()
        from lmma.run.result import final_result

        warnings = [*self.warnings, *self.evaluate.warnings]
        if self.options.constraint_handling != "lagrange" and self.state.constraints is None:
            handling = self.options.constraint_handling
            warnings.append(f"constraint_handling {handling!r} had no effect: there were no constraints")
        if self.checkpoint is not None:
            warnings += self.checkpoint.warnings
        if self.log is not None and self.log.warning:
            warnings.append(self.log.warning)
        result = final_result(self.state, self.stop, self.options, self.updates, warnings)
        if self.evaluate.cache is not None:
            result["calls"] = self.evaluate.cache.calls
        if self.archive is not None:
            if (archive := self.archive.reader()) is not None:
                result["archive"] = archive
            result["warnings"] += self.archive.warnings
        return result

    def message(self, spell: Spell) -> str:
        """Return the final message; ``spell`` writes the names of arguments."""
        from lmma.run.result import message

        assert self.stop is not None
        return message(self.state, self.stop, self.options, self.updates, spell)

    # The search

    def _search(self, interrupts: Interrupts) -> None:
        """Search; however it ends, save the checkpoint and close the progress line and the log."""
        line = self._line() if self.options.progress else None
        observers = self._all_observers(line, interrupts)
        try:
            self.stop = self._search_with_restarts(interrupts, observers)
        except KeyboardInterrupt:
            if self._should_raise(interrupts):
                raise
            self.stop = Stop(ENDINGS["interrupted"])
        except IndexError as error:  # such as "axis 1 is out of bounds"
            if error is self.evaluate.raised and not self.options.vectorized:
                error.add_note("lmma: if fun takes many rows at once, set vectorized=True")
            raise
        finally:
            if self.state.recorder is not None:
                self.state.recorder.end(self.state.progress())
            self._save()
            if line is not None:
                line.close(ended=self.stop is not None)
            if self.log is not None:
                self.log.close("" if self.stop is None else self.stop.reason)
            if self.options.callback is not None:
                from lmma.run.observers.callback import Tracker

                if isinstance(self.options.callback, Tracker):
                    self.options.callback.ended()

    def _search_with_restarts(self, interrupts: Interrupts, observers: tuple[Observer, ...]) -> Stop:
        """Search with all restarts; return the reason why the last one ended."""
        state, budget = self.state, budget_of(self.options)
        evaluation = Evaluation(self.evaluate, interrupts, bool(self.seeds))
        self.evaluate.untested = state.counters.evaluations == 0  # otherwise it has worked before
        while True:
            state.strategy.limit(budget.left(state.strategy, state.counters))
            stop = search(state, evaluation, budget, observers, saves=self.checkpoint is not None)
            if not stop.ending.restarts or self.schedule is None:
                return stop
            done = state.single_runs(stop.reason)
            plan = self.schedule.next(done, state.key)
            if plan is None:
                return stop
            try:
                state.restart(plan, done)
            except MemoryError:
                return Stop(ENDINGS["memory"], plan.popsize)

    def _start_strategy(self, plan: Plan) -> tuple[Strategy, tuple[Rule, ...]]:
        """Return a strategy started according to ``plan``, and its rules."""
        from lmma.run.restarts import restart_key, restart_point

        key, start = self.state.key, self.setup
        strategy = start.make(
            restart_point(start.x0, start.restart_sigma0, key, plan.number, start.box),
            np.asarray(start.restart_sigma0) * plan.sigma_factor,
            plan.popsize,
            restart_key(key, plan.number),
            plan.begin,
        )
        return strategy, (*self._rules, *rules_for(self.options, strategy, plan.allowance))

    def _should_raise(self, interrupts: Interrupts) -> bool:
        """Return whether to raise KeyboardInterrupt: on request, or on a second Ctrl-C."""
        return self.options.on_interrupt == "raise" or interrupts.count > 1

    # The end

    def _finish(self, stop: Stop, interrupts: Interrupts) -> None:
        """Call the finishers; if one fails, its update is omitted from the result."""
        finishers = self._finishers()
        if not finishers:
            return
        evaluate = self.evaluate
        if evaluate.strategy_observer is not None:  # replicas can only evaluate candidates of the strategy
            evaluate = self._evaluator(1, None, 1.0)
            evaluate.record, evaluate.cache = self.evaluate.record, self.evaluate.cache
        evaluation = Evaluation(evaluate, interrupts, bool(self.seeds))
        try:
            for name, finish in finishers.items():
                self._add_update(name, finish, evaluation, stop.ending)
        finally:
            if evaluate is not self.evaluate:
                evaluate.close()

    def _add_update(self, name: str, finish: Finisher, evaluation: Evaluation, ending: Ending) -> None:
        try:
            try:
                update = finish(evaluation, ending)
            except KeyboardInterrupt:
                if self._should_raise(evaluation.interrupts):
                    raise
                update = finish(evaluation, ENDINGS["interrupted"])
        except Exception as error:
            text = one_line(f"{type(error).__name__}: {error}")
            self.warnings.append(f"{name} failed, so the result is that of the search: {text}")
            return
        if update is not None:
            self.updates.append(update)

    def _finishers(self) -> dict[str, Finisher]:
        """Return the requested finishers, by a description for messages."""
        state, options = self.state, self.options
        finishers: dict[str, Finisher] = {}
        if options.noise is not None:
            from lmma.run.finishers.verdict import verdict

            finishers["re-evaluating the result"] = lambda evaluation, ending: verdict(
                state, evaluation, ending, options.maxfevals, options.feasibility_tol
            )
        if options.polish:
            from lmma.run.finishers.polish import polish

            finishers["polishing"] = lambda evaluation, ending: polish(
                state, evaluation, ending, options, self.setup.box
            )
        return finishers

    # Files and workers

    def _evaluator(self, workers: object, timeout: float | None, quorum: float) -> Evaluator:
        options = self.options
        return evaluator(
            self.objective, options.args, options.on_error, workers=workers, vectorized=options.vectorized,
            timeout=timeout, quorum=quorum,
        )  # fmt: skip

    def _prepare_files(self) -> JsonLog | None:
        """Resume from the checkpoint if it exists; return the log."""
        state, after = self.state, None
        if self.checkpoint is not None:
            from lmma.run.checkpoint import identity

            self.checkpoint.lock.acquire()
            self._lock = self.checkpoint.lock
            self.checkpoint.space = self.options.space
            self.checkpoint.identity = identity(
                self.fun, self.setup, state.strategy, self.first_popsize, self.seeds
            )
            notes = self.checkpoint.restore(state, seeded=self.options.rng is not None)
            if notes is not None:
                self.warnings += notes
                after = state.counters.evaluations
        if self.options.archive is not None:
            self._open_archive(resumed=after is not None)
        if self.options.log is None:
            return None
        from lmma.run.observers.json_log import JsonLog, SearchColumns, best_values

        space = self.options.space
        columns = SearchColumns(state, space, self.setup.box)
        return JsonLog(
            self.options.log,
            after=after,
            more=lambda final: columns(final) | best_values(state.counters.best_x, space),
            run=self._description() | {"relative": columns.limits is not None},
        )

    def _description(self) -> dict[str, Any]:
        """Return the description of the run for its log: method, size, seed and budget."""
        strategy, options = self.state.strategy, self.options
        numbers: dict[str, Any] = {"n": strategy.n, "popsize": self.first_popsize, "seed": options.rng}
        numbers |= {name: getattr(options, name) for name in ("maxfevals", "maxiter", "maxtime", "ftarget")}
        plain = {k: value.item() if isinstance(value, np.generic) else value for k, value in numbers.items()}
        known = {name: value for name, value in plain.items() if type(value) in (int, float)}
        return {"method": strategy.name} | {name: v for name, v in known.items() if -1e300 < v < 1e300}

    def _remember_designs(self) -> dict[str, Stateful]:
        """Cache the evaluations of a search of discrete variables; return the cache, to save it."""
        options = self.options
        if options.archive is not None or options.vectorized or self._varies:
            return {}
        if self.setup.limits.get("integrality") is None and not self.setup.limits.get("categories"):
            return {}
        from lmma.evaluation.cache import Designs
        from lmma.run.archive.opening import all_discrete

        if not all_discrete(self.setup):
            return {}
        designs = self.evaluate.cache = Designs()
        return {"designs": designs}

    def _open_archive(self, *, resumed: bool) -> None:
        from lmma.run.archive.opening import open_archive

        state = self.state
        archive = open_archive(self.fun, self.setup, state.strategy, varies=self._varies, resumed=resumed)
        self.archive = self.evaluate.cache = archive
        archive.generation = lambda: state.counters.generation + 1
        archive.start(state.strategy.name, self.first_popsize, "-".join(map(str, state.key)))

    def _save(self) -> None:
        if self.checkpoint is not None and self.state.consistent and self.state.counters.evaluations:
            from lmma._text import in_python

            self.checkpoint.save(self.state, None if self.stop is None else self.message(in_python))

    def _release(self) -> None:
        """Shut down workers, close the archive and release the checkpoint lock."""
        try:
            self.evaluate.close()
        finally:
            if self.archive is not None:
                self.archive.close()
            if self._lock is not None:
                self._lock.release()

    # Observers

    def _line(self) -> ProgressLine:
        from lmma.run.observers.progress_line import ProgressLine

        counters, options = self.state.counters, self.options
        begun = (counters.evaluations, counters.seconds)
        grows = options.noise == "population"
        return ProgressLine(options.maxfevals, maxtime=options.maxtime, begun=begun, grows=grows)

    def _all_observers(self, line: ProgressLine | None, interrupts: Interrupts) -> tuple[Observer, ...]:
        """Return all observers; the callback is last because it may end the run."""
        state, options = self.state, self.options
        watching: list[Observer] = [watch for watch in (line, self.log) if watch is not None]
        watching += self._observers
        checkpoint = self.checkpoint
        if checkpoint is not None:
            # Until fun has returned a value, its error may still be raised
            watching.append(lambda _: None if self.evaluate.untested else checkpoint.save_if_due(state))
        if options.callback is not None:
            from lmma.run.observers.callback import callback_observer

            watching.append(
                callback_observer(options.callback, state, options.space, interrupts, self.setup.box)
            )
        return tuple(watching)


def _checkpoint(given: Any) -> Checkpoint | None:
    if given is None:
        return None
    from lmma.run.checkpoint import Checkpoint

    return given if isinstance(given, Checkpoint) else Checkpoint(given)


def _schedule(restarts: Any) -> Schedule | None:
    if type(restarts) is int and restarts == 0:
        return None
    from lmma.run.restarts import schedule

    return schedule(restarts)


def _averaged(options: RunOptions, strategy: Strategy) -> Any:
    if options.noise is None:
        return None
    from lmma.run.state import AveragedMean

    return AveragedMean(strategy.n)


def _recorder(history: bool | int) -> Recorder | None:
    if not history:
        return None
    from lmma.run.observers import Recorder

    return Recorder(1000 if history is True else history)
