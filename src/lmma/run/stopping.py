"""Stopping rules, and the reasons that they report.

To add a rule, write a subclass of :class:`Rule`, list its ending in ``ENDINGS`` and build it in
:func:`rules_for`. The rules of a run are a tuple and are checked in that order.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma._text import Spell, escape_braces, filled
from lmma.methods import Strategy
from lmma.numerics.state import AT_LEAST_ONE, COUNT, FLAG, NOT_NAN, Declared, collect, restore

if TYPE_CHECKING:
    from lmma.kernels import Key
    from lmma.numerics.recombination import Indices
    from lmma.run.options import RunOptions
    from lmma.run.state import Counters

MIN_QUALITY = 0.2  # agreement of repeated rankings below which progress can hardly be detected
NOISE_SHARE = 0.02  # of the noise of a value: with restarts, a smaller gain in half of the run is no progress

Values = npt.NDArray[np.float64]

# Endings


@dataclass(frozen=True)
class Ending:
    """One reason to stop: its message, and its consequences for the result and for restarts.

    In ``template`` (see :mod:`lmma._text`), ``{value}`` is the measured value, ``{limit}`` the limit it was
    compared with, and ``{error}`` the message of an exception.
    """

    reason: str
    status: int  # of the result; 0 if the target was reached
    template: str
    success: bool = False
    advice: str = ""  # the end of the template, to omit if it does not apply
    restarts: bool = False  # whether a restart may follow
    urgent: bool = False  # whether finishers must not evaluate anything
    target_reached: bool = False
    budget_exhausted: bool = False
    ties_may_explain: bool = False  # whether the message mentions ties, if there were many
    shows_first_error: bool = False  # whether the message quotes the first failed evaluation


@dataclass(frozen=True)
class Stop:
    """One occurrence of an ending, with the measured value and the limit it was compared with."""

    ending: Ending
    value: float = math.nan
    limit: float = math.nan
    error: str = ""  # the message of an exception that ended the run
    template: str = ""  # replaces the ending's, if the advice differs

    @property
    def reason(self) -> str:
        """The reason in one word."""
        return self.ending.reason

    @property
    def advice(self) -> str:
        """The advice at the end of the message that may be omitted."""
        return "" if self.template else self.ending.advice

    def message(self, spell: Spell, *, with_advice: bool = True) -> str:
        """Return the message for users; ``spell`` writes the names of arguments."""
        limit = int(self.limit) if float(self.limit).is_integer() else self.limit  # 100.0 is shown as 100
        values = {"value": self.value, "limit": limit, "error": self.error}
        template = self.template or self.ending.template
        return filled(template if with_advice else template.removesuffix(self.advice), values, spell)


def ending_of(reason: str) -> Ending:
    """Return the ending for a reason given by a strategy, also for one that is not in ``ENDINGS``."""
    template = f"The strategy ended the run: {escape_braces(reason)} = {{value}}."
    return ENDINGS.get(reason) or Ending(reason, 14, template, restarts=True)


ENDINGS: dict[str, Ending] = {
    ending.reason: ending
    for ending in (
        # targets and budgets, over all restarts
        Ending("ftarget", 0, "Target reached: fun = {value:.6g} <= {ftarget} = {limit:.6g}.",
               success=True, target_reached=True),
        Ending("maxiter", 4, "Generation limit reached: {maxiter} = {limit}.",
               budget_exhausted=True, ties_may_explain=True),
        Ending("maxfevals", 3, "Evaluation limit reached: the next generation would exceed {maxfevals} = "
               "{limit}.",
               budget_exhausted=True, ties_may_explain=True),
        Ending("maxtime", 5, "Time limit reached: {value:.3g} s elapsed, {maxtime} = {limit:.3g} s.",
               urgent=True, budget_exhausted=True, ties_may_explain=True),
        Ending("failures", 12, "Every evaluation failed for {value:.0f} generations in a row.",
               urgent=True, shows_first_error=True),
        # convergence, divergence and stagnation of one strategy, which restarts may follow
        Ending("tolx", 1, "Converged: steps in x ({value:.3g}) are below {tolx} = {limit:.3g}. To continue, "
               "set a smaller {tolx}.", success=True, restarts=True,
               advice=" To continue, set a smaller {tolx}."),
        Ending("tolfun", 2, "Converged: fun varies by {value:.3g}, less than {tolfun} = {limit:.3g}. To "
               "continue, set a smaller {tolfun}.", success=True, restarts=True,
               advice=" To continue, set a smaller {tolfun}."),
        Ending("converged", 22, "Converged: a further step is expected to lower fun by only {value:.3g}, "
               "which is hidden by the error of its values.", success=True, restarts=True),
        Ending("stuck", 23, "Stuck: the slopes of fun predict a decrease of {value:.3g}, but steps along "
               "them gain little or nothing. fun may have kinks or be rough near x: set {method['auto']} to "
               "continue from x, or {restarts[=]} to search elsewhere.", restarts=True),
        Ending("not_additive", 24, "Stopped: fun is not a sum of functions of one variable each, so that "
               "searching them one by one does not lead to its minimum. Set {method['auto']} to continue "
               "from x.", restarts=True),
        Ending("integer_search_exhausted", 20, "Discrete search exhausted: no neighbour of x is better, and "
               "nothing better was found in {value:.0f} generations. Set {restarts[=]} to search elsewhere.",
               success=True, restarts=True),
        Ending("numerical", 8, "Numerical failure: sigma = {value}. Check the scale of fun and of {sigma0}.",
               restarts=True),
        Ending("diverged", 9, "Diverged: sigma grew to {value:.3g}. The objective may be unbounded below, or "
               "{bounds} may be missing.", restarts=True),
        Ending("flat", 11, "Flat: all candidates had the same value for {value:.0f} generations. "
               "Increase {sigma0} to reach beyond the plateau, or set {restarts[=]} to search elsewhere. If "
               "fun rounds its values, return more digits.", restarts=True),
        Ending("stagnation", 10, "Stagnated: no progress in the last {value:.0f} generations. Set "
               "{restarts[=]} to search elsewhere, {noise['auto']} if fun is noisy, or "
               "{stagnation[False]} to continue anyway.", restarts=True, ties_may_explain=True),
        Ending("noise", 17, "Stagnated in noise: two rankings of the same candidates agree by {value:.2f} "
               "(1: no noise, 0: chance), so noise hides further progress. Average more samples inside fun, "
               "increase {popsize} or set {noise['average']}; set {stagnation[False]} to continue anyway.",
               restarts=True),
        Ending("plateau", 21, "On a plateau: in {value:.0f} of the last {limit} generations the best quarter "
               "of the candidates had equal values, and the best value has not fallen. Increase {popsize}, "
               "or set {stagnation[False]} to continue anyway.", restarts=True),
        Ending("allowance", 13, "This restart has used its share of {limit} evaluations. To continue, "
               "increase {restarts[=]} or {maxfevals}.", restarts=True),
        # endings that no rule detects
        Ending("callback", 6, "Stopped by the callback.", urgent=True),
        Ending("solved", 18, "Solved: the average reward of the mean policy over fresh episodes is "
               "{value:.6g} (threshold {limit:.6g}).", success=True),
        Ending("interrupted", 7, "Interrupted by Ctrl-C or a termination signal; x is the best point so far.",
               urgent=True),
        Ending("strategy", 15, "The strategy or a stopping rule failed: {error}; x is the best point so "
               "far. Set {restarts[=]} to restart after such failures, or try another {method}.",
               restarts=True),
        Ending("memory", 16, "Out of memory: a population of {value:.0f} does not fit into the free memory; "
               "x is the best point so far. Reduce {restarts[=]} or {popsize}, or choose a {method} that "
               "needs less memory."),
    )
}  # fmt: skip

# Budgets


@dataclass(frozen=True)
class EvaluationBudget:
    """Limit on evaluations, including those reserved for the end of the run.

    Parameters
    ----------
    maxfevals : int, optional
        Evaluations over all restarts, never exceeded.
    reserved : int
        The part of them reserved for polishing.
    noisy : bool
        Whether noise is handled: candidates may be evaluated again, and the verdict needs evaluations.
    """

    maxfevals: int | None = None
    reserved: int = 0
    noisy: bool = False

    def left(self, strategy: Strategy, counters: Counters) -> float:
        """Return the number of evaluations the next batch may use; the first may use the reserved ones."""
        if self.maxfevals is None:
            return math.inf
        left = self.maxfevals - counters.evaluations
        if self.noisy:
            from lmma.run.finishers.verdict import reserve

            return left - reserve(strategy)
        return left - self.reserved if counters.evaluations else left

    def allows_next(self, strategy: Strategy, counters: Counters) -> bool:
        """Return whether the next batch fits; one row is enough if the strategy allows partial batches."""
        if self.maxfevals is None:
            return True
        needed = 1 if strategy.cuts_batches else strategy.batch_size
        if self.noisy:
            if counters.evaluations and not strategy.cuts_batches:
                needed += len(strategy.rows_to_repeat)
            return self.left(strategy, counters) >= needed
        reserved = self.reserved if counters.evaluations else 0
        return counters.evaluations + needed + reserved <= self.maxfevals

    def rows(self, strategy: Strategy, counters: Counters, rows: int) -> int:
        """Return the number of the ``rows`` of a batch that may be evaluated."""
        return int(min(rows, self.left(strategy, counters)))

    def repeats(self, strategy: Strategy, counters: Counters) -> Indices:
        """Return the rows of the next batch to evaluate again; none if that would exceed the budget."""
        rows = strategy.rows_to_repeat
        spent = counters.evaluations + strategy.batch_size + len(rows)
        return rows if self.maxfevals is None or spent <= self.maxfevals else rows[:0]

    def stop(self, counters: Counters) -> Stop:
        """Return the stop of a run that has used its evaluations."""
        assert self.maxfevals is not None
        return Stop(ENDINGS["maxfevals"], counters.evaluations, self.maxfevals)


def budget_of(options: RunOptions) -> EvaluationBudget:
    """Return the evaluation budget that options ask for."""
    reserved = 0
    if options.polish and options.maxfevals is not None:
        from lmma.run.finishers.polish import SHARE

        reserved = int(SHARE * options.maxfevals)
    return EvaluationBudget(options.maxfevals, reserved, options.noise is not None)


# Rules


@dataclass
class Situation:
    """The facts that a rule may use before the next generation."""

    strategy: Strategy
    counters: Counters
    seconds: float = 0.0  # since the start of the run
    key: Key = (0, 0)  # of the run


class Rule(ABC):
    """A stopping rule: sees the values of each generation and returns a reason to stop, or None.

    The attributes named in ``STATE`` are numbers or lists of numbers and are saved with the run.
    """

    STATE: ClassVar[Declared] = ()

    def watch(self, ranked: Values) -> None:  # noqa: B027 (many rules only use counters)
        """Receive the values of a generation in increasing order, without failed evaluations.

        Once noise is found, ``ranked`` holds one value: the average of recent candidates.
        """

    @abstractmethod
    def check(self, now: Situation) -> Stop | None:
        """Return a reason to stop before the next generation, or None."""

    def get_state(self) -> dict[str, Any]:
        """Return the state of the rule as named numbers and arrays."""
        return collect({"": self})

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by :meth:`get_state`."""
        restore({"": self}, state)


def rules_for(options: RunOptions, strategy: Strategy, allowance: int | None = None) -> tuple[Rule, ...]:
    """Return new rules for a strategy that is about to start, in the order of checking.

    ``allowance`` is the part of the run's evaluations that this strategy may use.
    """
    rules: list[Rule] = []
    if options.ftarget is not None:
        rules.append(Target(options.ftarget, noisy=options.noise is not None))
    if (options.maxiter, options.maxfevals, options.maxtime) != (None, None, None):
        rules.append(Budget(options))
    rules += [Failing(), StrategyStops()]
    if options.stagnation:
        rules.append(Stagnation(strategy.n, strategy.popsize, restarts=bool(options.restarts)))
    if options.stagnation and options.restarts and strategy.convergence.neighbours is None:
        rules.append(Plateau(strategy.n))
    if allowance is not None:
        rules.append(Allowance(allowance))
    return tuple(rules)


@final
class Target(Rule):
    """Stops a run that has found a value as low as ``ftarget``."""

    def __init__(self, ftarget: float, *, noisy: bool = False) -> None:
        self.ftarget, self.noisy = ftarget, noisy

    def check(self, now: Situation) -> Stop | None:
        """Compare with the best value of the run."""
        best = now.counters.best_fun
        if self.noisy and now.strategy.noise.found and now.strategy.constraints is None:
            best = now.strategy.noise.level  # with noise, a single value reaches any target by chance
        return Stop(ENDINGS["ftarget"], best, self.ftarget) if best <= self.ftarget else None


@final
class Budget(Rule):
    """Stops a run that has used its generations, evaluations or time."""

    def __init__(self, options: RunOptions) -> None:
        self.maxiter, self.maxtime = options.maxiter, options.maxtime
        self.evaluations = budget_of(options)

    def check(self, now: Situation) -> Stop | None:
        """Compare counters and clock with the budget; stop before a batch that would exceed it."""
        done = now.counters
        if self.maxiter is not None and done.generation >= self.maxiter:
            return Stop(ENDINGS["maxiter"], done.generation, self.maxiter)
        if not self.evaluations.allows_next(now.strategy, done):
            return self.evaluations.stop(done)
        if self.maxtime is not None and now.seconds >= self.maxtime:
            return Stop(ENDINGS["maxtime"], now.seconds, self.maxtime)
        return None


@final
class Failing(Rule):
    """Stops a run after several generations in which every evaluation failed."""

    PATIENCE = 3  # generations

    def check(self, now: Situation) -> Stop | None:
        """Compare the number of failed generations in a row with ``PATIENCE``."""
        failing = now.counters.failing
        return Stop(ENDINGS["failures"], failing) if failing >= self.PATIENCE else None


@final
class StrategyStops(Rule):
    """Passes on the reasons to stop that a strategy reports itself."""

    ROUNDED: ClassVar = {
        "tolx": "Converged to the precision of float32: steps in x ({value:.3g}) are below its last digit. "
        "To continue, set {dtype['float64']}.",
        "tolfun": "Converged to the precision of float32: fun varies by {value:.3g}, less than its last "
        "digit. To continue, set {dtype['float64']}.",
    }

    def check(self, now: Situation) -> Stop | None:
        """Return the first reason that the strategy reports."""
        reasons = now.strategy.stop()
        if not reasons:
            return None
        for reason, value in reasons.items():
            limits = {"tolx": now.strategy.tolx, "tolfun": now.strategy.convergence.least_difference}
            template = self._rounded(reason, value, now.strategy)
            return Stop(ending_of(reason), value, limits.get(reason, math.nan), template=template)
        return None

    def _rounded(self, reason: str, value: float, strategy: Strategy) -> str:
        """Return the template to use if float32 is the limiting factor, else an empty string."""
        measured = {"tolx": {"step": value}, "tolfun": {"difference": value}}.get(reason, {})
        return self.ROUNDED[reason] if below_float32_digits(strategy, **measured) else ""


def below_float32_digits(strategy: Strategy, step: float = math.inf, difference: float = math.inf) -> bool:
    """Return whether float32 is in use and cannot resolve a step in x or a difference in fun."""
    if strategy.dtype != np.float32:
        return False
    digit = float(np.finfo(np.float32).eps)
    return step < digit * float(np.abs(strategy.mean).max()) or difference < digit * abs(strategy.best_fun)


@final
class Stagnation(Rule):
    """Stops a search in which neither the best nor the median value has improved for long.

    The rule compares the medians of the first and the last 30% of a window, which is the second half of the
    run. Hansen (BIPOP-CMA-ES, 2009) uses the last fifth. If restarts can follow, this rule does too: a larger
    population makes better use of the remaining budget. Without restarts, a fifth would stop LM-MA-ES while
    it is slow but still progressing (discus: one order of magnitude in 860,000 evaluations).

    Under noise, averages fall ever more slowly and never stop. If restarts can follow, a gain in half of the
    run that is small compared with the noise of a single value does not count.

    At most ``KEPT`` generations are remembered, evenly spread.
    """

    WATCHED = (
        "Stagnated: no progress in the last {value:.0f} generations, and no noise was found to explain it. "
        "Set {restarts[=]} to search elsewhere, or {stagnation[False]} to continue anyway."
    )
    TREATED = (
        "Stagnated: no progress in the last {value:.0f} generations, although noise is being handled. "
        "Average more samples inside fun or increase {popsize}; set {restarts[=]} to search elsewhere, or "
        "{stagnation[False]} to continue anyway."
    )
    ROUNDED = (
        "Stagnated: no progress in the last {value:.0f} generations, because candidates or values differ by "
        "less than the last digit of float32. To continue, set {dtype['float64']}."
    )
    AVERAGED = (
        "Stagnated in noise: two rankings of the same candidates agree by {value:.2f} (1: no noise, 0: "
        "chance), so noise hides further progress, even with {limit:.3g} times as many evaluations per "
        "generation. Average more samples inside fun or increase {popsize}; set {stagnation[False]} to "
        "continue anyway."
    )
    STATE: ClassVar[Declared] = {
        "stride": AT_LEAST_ONE, "seen": COUNT, "checked_at": COUNT, "stagnant_for": COUNT, "best": NOT_NAN,
        "median": NOT_NAN,
    }  # fmt: skip
    KEPT = 4096

    def __init__(self, n: int, popsize: int, *, restarts: bool = False) -> None:
        self.restarts = restarts
        self.min_window = 120 + math.ceil(30 * n / popsize)  # generations
        # earlier, values may stall while a metric is learned; pycma waits as long
        self.earliest = max(2 * self.min_window, math.ceil(n * (5 + 100 / popsize)))
        self.stride = 1
        self.seen = 0
        self.checked_at = 0
        self.stagnant_for = 0  # generations, once stagnation is detected
        self.best: list[float] = []
        self.median: list[float] = []

    def watch(self, ranked: Values) -> None:
        """Remember the best and the median of every ``stride``-th generation."""
        if len(ranked) and self.seen % self.stride == 0:
            self.best.append(ranked.item(0))
            self.median.append(ranked.item(len(ranked) // 2))
            if len(self.best) >= self.KEPT:
                self.best, self.median = self.best[::2], self.median[::2]
                self.stride *= 2
        self.seen += 1

    def check(self, now: Situation) -> Stop | None:
        """Check again each time the run has grown by 1%, but not while the noise treatment still adapts."""
        noise = now.strategy.noise
        in_noise = self.restarts and noise.found
        if self.seen >= self.earliest and self.seen >= 1.01 * self.checked_at:
            self.checked_at = self.seen
            window = self._window(0.2 if self.restarts and not noise.found else 0.5)
            least = NOISE_SHARE * noise.spread if in_noise else 0.0
            if not any(
                _improved(record, window // self.stride, least) for record in (self.best, self.median)
            ):
                self.stagnant_for = window
        if not self.stagnant_for:
            return None
        if noise.found and noise.has_more_to_try and not in_noise:
            self.stagnant_for = 0
            return None
        if noise.found and noise.quality < MIN_QUALITY:
            template = self.AVERAGED if noise.repeats > 1 else ""
            return Stop(ENDINGS["noise"], max(0.0, noise.quality), noise.repeats, template=template)
        template = "" if noise.treatment is None else self.TREATED if noise.found else self.WATCHED
        if below_float32_digits(now.strategy, now.strategy.spread, now.strategy.spread_fun):
            template = self.ROUNDED
        return Stop(ENDINGS["stagnation"], self.stagnant_for, template=template)

    def _window(self, share: float) -> int:
        """Return the number of generations to compare, a ``share`` of the run."""
        return max(self.min_window, int(share * self.seen))


def _improved(record: list[float], count: int, least: float) -> bool:
    """Return whether the end of the last ``count`` values is lower than their beginning, by ``least``."""
    count = min(len(record), count)
    part = max(1, (3 * count) // 10)
    beginning, end = record[-count : part - count or None], record[-part:]
    if max(end) < min(beginning) - least:  # implies the same for the medians, in a tenth of the time
        return True
    return bool(np.median(end) < np.median(beginning) - least)


@final
class Plateau(Rule):
    """Stops a search on a plateau, so that a restart with a larger population can follow.

    Both conditions must hold over the last max(n, 20) generations:

    - in more than a third of them, the best quarter of the candidates had equal values (Hansen,
      BIPOP-CMA-ES, 2009);
    - the median best value of the last third is not below that of the first third. A function with few
      distinct values, such as a count of errors, may have ties while it still improves.

    If all candidates are equal, the strategy increases its steps instead. Integers have a separate rule.
    """

    STATE: ClassVar[Declared] = {"tied": FLAG, "best": NOT_NAN}
    MIN_WINDOW = 20  # generations

    def __init__(self, n: int) -> None:
        self.window = max(n, self.MIN_WINDOW)
        self.tied: list[float] = []
        self.best: list[float] = []

    def watch(self, ranked: Values) -> None:
        """Remember the best value of the generation, and whether the best quarter shares it."""
        quarter = math.ceil(0.1 + len(ranked) / 4)
        if quarter >= len(ranked):
            return
        self.tied.append(float(ranked.item(0) == ranked.item(quarter) != ranked.item(-1)))
        self.best.append(ranked.item(0))
        if len(self.tied) >= 2 * self.window:
            self.tied, self.best = self.tied[-self.window :], self.best[-self.window :]

    def check(self, now: Situation) -> Stop | None:
        """Check after a generation whose best quarter was tied."""
        if len(self.tied) < self.window or not self.tied[-1]:
            return None
        tied, best, third = sum(self.tied[-self.window :]), self.best[-self.window :], self.window // 3
        if 3 * tied <= self.window or np.median(best[-third:]) < np.median(best[:third]):
            return None
        return Stop(ENDINGS["plateau"], tied, self.window)


@final
class Allowance(Rule):
    """Stops one strategy of a run with restarts when it has used its share of the evaluations."""

    def __init__(self, evaluations: int) -> None:
        self.evaluations = evaluations

    def check(self, now: Situation) -> Stop | None:
        """Compare the evaluations of the strategy with its share."""
        used = now.strategy.evaluations
        return Stop(ENDINGS["allowance"], used, self.evaluations) if used >= self.evaluations else None
