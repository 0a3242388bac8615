"""One run from start to end: options in, result out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lmma.evaluation import Evaluator, evaluator
from lmma.evaluation.seeded import Seeded, wanted_seeds
from lmma.run.counters import Counters, SingleRun
from lmma.run.endings import Stop
from lmma.run.generation import run_until_stopped
from lmma.run.interrupts import Interrupts
from lmma.run.noise import Centre, Verdict, settle
from lmma.run.observers import JsonLog, Observer, Progress, Recorder, calls_back
from lmma.run.options import RunOptions
from lmma.run.polish import Polished, polish
from lmma.run.progress_line import ProgressLine
from lmma.run.restarts import Plan, memory_warning, restart_key, restart_point, schedule
from lmma.run.setup import setup
from lmma.run.stopping import rules_for
from lmma.run.tracker import Tracker
from lmma.run.variables import best_values, names_of, with_space

if TYPE_CHECKING:  # most runs have no checkpoint: what it needs is imported when one is asked for
    from scipy.optimize import OptimizeResult

    from lmma.run.checkpoint import Checkpoint
    from lmma.run.checkpoint_lock import Lock


class Companion(Protocol):
    """What goes along with a run: asked before each generation whether to stop, and saved with it."""

    def check(self, run: Run) -> Stop | None:
        """Return why to stop before the next generation, or None."""

    def get_state(self) -> dict[str, Any]:
        """Return what is to be saved, as named arrays and numbers."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`."""


class Run:
    """A run with all its parts, ready to :meth:`execute`; see :func:`lmma.minimize` for the arguments.

    Parameters
    ----------
    fun, x0, sigma0
        The objective, where the search starts, and its initial step size.
    options : RunOptions
        Everything else a user may say.
    evaluate : Evaluator, optional
        What evaluates candidates, instead of one made for ``fun``.
    observers : iterable of callables
        Shown a :class:`Progress` after each generation.
    companion : Companion, optional
        What goes along with the run, is asked whether to stop and is saved with it.

    Attributes
    ----------
    strategy : Strategy
        The one that searches at present.
    constraints : Constraints
        What candidates are to meet.
    interrupts : Interrupts
        What evaluates candidates such that Ctrl-C cuts it short.
    stop : Stop or None
        Why the run ended.
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
        companion: Companion | None = None,
    ) -> None:
        x0, options = with_space(x0, RunOptions() if options is None else options)
        self.fun = fun
        self.checkpoint = _checkpoint(options.checkpoint)
        if self.checkpoint is not None:
            options = options.replaced(method=self.checkpoint.continued(options.method))
        self.options = options
        self.schedule = schedule(options.restarts)
        self.setup = setup(fun, x0, sigma0, options)
        self.constraints = self.setup.constraints
        self.strategy = self.setup.first()
        self.key = self.strategy.key
        self.first_popsize = self.strategy.popsize  # restarts have others, and noise may let it grow
        self.plan = Plan(0, self.first_popsize)
        self.rules = rules_for(options, self.strategy)
        self.centre = Centre(self.strategy.n)
        self.verdict: Verdict | None = None
        self.settled = False  # whether there is a verdict if there is to be one
        self.polished: Polished | None = None
        self.counters = Counters()
        self.seeds = wanted_seeds(fun, options.args, options.common_random_numbers, names_of(options))
        self.objective = self.constraints.objective(fun, options, self.seeds)
        if self.seeds:
            self.objective = Seeded(self.objective, self.seeds, self.strategy.dtype.name)
        self.evaluate = evaluate or evaluator(
            self.objective, options.args, options.on_error, workers=options.workers,
            vectorized=options.vectorized, timeout=options.timeout, quorum=options.quorum,
        )  # fmt: skip
        self.interrupts = Interrupts()
        self.recorder = _recorder(options.history)
        self.warnings: list[str] = []
        self.stop: Stop | None = None
        self._observers = tuple(observers)
        self.companion = companion
        self._lock: Lock | None = None
        try:
            resumed = False
            if self.checkpoint is not None:
                self.checkpoint.lock.acquire()
                self._lock = self.checkpoint.lock
                resumed = self.checkpoint.restore(self)
            self.log = _log(self, self.counters.evaluations if resumed else None)
        except BaseException:
            self._release()
            raise
        finished = self.counters.finished
        first = finished[0].popsize if finished else self.plan.popsize
        if words := memory_warning(self.schedule, self.strategy, first, options.maxfevals):
            self.warnings.append(words)

    def execute(self, *, interrupts: Interrupts | None = None) -> OptimizeResult:
        """Search until a rule, a callback or Ctrl-C ends it; return the result."""
        self.interrupts = interrupts or Interrupts()
        with self.interrupts:
            try:
                self._execute()
                assert self.stop is not None
                self.verdict = self._settled(self.stop)
                self.settled = True
                self.polished = polish(self, self.stop.reason)
            finally:
                self._release()
        from lmma.run.result import final_result

        assert self.stop is not None
        return final_result(self, self.stop)

    def _settled(self, stop: Stop) -> Verdict | None:
        """Return the result without luck of a run with noise; the checkpoint has been written before."""
        try:
            return settle(self, stop.reason)
        except KeyboardInterrupt:
            if self.options.on_interrupt == "raise" or self.interrupts.count > 1:
                raise
            return settle(self, "interrupted")

    def _execute(self) -> None:
        """Search, and leave checkpoint, workers and files in order, whatever ends it."""
        line = self._line() if self.options.progress else None
        try:
            self.stop = self._search(self._watching(line))
        except KeyboardInterrupt:
            if self.options.on_interrupt == "raise" or self.interrupts.count > 1:
                raise
            self.stop = Stop("interrupted")
        finally:
            if self.checkpoint is not None and self.counters.consistent and self.counters.evaluations:
                self.checkpoint.save(self)
            if line is not None:
                line.close()
            if self.log is not None:
                self.log.close("" if self.stop is None else self.stop.reason)
            if isinstance(self.options.callback, Tracker):
                self.options.callback.ended()

    def _line(self) -> ProgressLine:
        counters, options = self.counters, self.options
        begun = (counters.evaluations, counters.seconds)
        grows = options.noise == "population"
        return ProgressLine(options.maxfevals, maxtime=options.maxtime, begun=begun, grows=grows)

    def _release(self) -> None:
        """Let go of workers and of the checkpoint, which others may use from now on."""
        try:
            self.evaluate.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def progress(self) -> Progress:
        """Return the run as observers see it."""
        counters, strategy = self.counters, self.strategy
        return Progress(
            counters.evaluations,
            counters.generation,
            counters.best_fun,
            strategy.sigma,
            counters.failures,
            counters.seconds,
            step=strategy.spread,
            popsize=strategy.popsize,
            restarts=len(counters.finished),
            late=counters.late,
            violation=math.nan if counters.raw_at_best is None else counters.violation,
            quality=strategy.noise.quality,
            repeats=strategy.noise.repeats,
            rate=strategy.noise.rate,
            average_fun=strategy.average_fun,
        )

    def single_runs(self, reason: str) -> list[SingleRun]:
        """Return the runs between restarts, the present one as if it ended now for ``reason``."""
        finished, strategy = self.counters.finished, self.strategy
        used = self.counters.evaluations - sum(run.evaluations for run in finished)
        if self.polished is not None:
            used -= self.polished.evaluations
        return [*finished, SingleRun(strategy.popsize, used, strategy.best_fun, reason, self.plan.small)]

    def begin(self, plan: Plan, finished: list[SingleRun]) -> None:
        """Start anew as ``plan`` says, after the runs that have ``finished``."""
        number, start, counters = plan.number, self.setup, self.counters
        sigma0 = start.restart_sigma0
        self.centre.take(self.strategy)
        strategy = start.make(
            restart_point(start.x0, sigma0, self.key, number, start.box),
            np.asarray(sigma0) * plan.sigma_factor,
            plan.popsize,
            restart_key(self.key, number),
        )
        rules = rules_for(self.options, strategy, plan.allowance)
        # Everything is there: what comes between now could only be saved as half of either run
        counters.consistent = False
        self.strategy, self.rules, self.plan, counters.finished = strategy, rules, plan, finished
        counters.consistent = True

    def _search(self, observers: tuple[Observer, ...]) -> Stop:
        """Go through all restarts; return why the last run ended."""
        while True:
            stop = run_until_stopped(self, observers)
            if not stop.ending.restarts:
                return stop
            done = self.single_runs(stop.reason)
            plan = self.schedule.next(done, self.key)
            if plan is None:
                return stop
            try:
                self.begin(plan, done)
            except MemoryError:
                return Stop("memory", "restarts", plan.popsize)

    def _watching(self, line: ProgressLine | None) -> tuple[Observer, ...]:
        """Return all that is shown the progress, the callback last: it may end the run."""
        watching: list[Observer] = [watch for watch in (line, self.log, self.recorder) if watch is not None]
        watching += self._observers
        saved = self.checkpoint
        if saved is not None:
            watching.append(lambda _: saved.save_if_due(self))
        if self.options.callback is not None:
            watching.append(calls_back(self.options.callback, self))
        return tuple(watching)


def _checkpoint(given: Any) -> Checkpoint | None:
    if given is None:
        return None
    from lmma.run.checkpoint import Checkpoint

    return given if isinstance(given, Checkpoint) else Checkpoint(given)


def _recorder(history: bool | int) -> Recorder | None:
    return Recorder(1000 if history is True else history) if history else None


def _log(run: Run, after: int | None) -> JsonLog | None:
    file = run.options.log
    if file is None:
        return None
    from lmma.run.shape import Shape, median_value

    shape = Shape(run)

    return JsonLog(file, after=after, more=lambda: median_value(run) | shape() | best_values(run))
