"""Why a run ends: every rule that can end it.

A rule is one class with its endings beside it. Writing the class is all there is to do: it is made for every
run that asks for it, and its ending appears in message, JSON, exit status and in the decision to start again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
import numpy.typing as npt

from lmma.run.endings import ENDINGS, Ending, Stop
from lmma.run.noise import reserve
from lmma.run.options import RunOptions
from lmma.run.polish import left_for_polishing
from lmma.strategies import Strategy

if TYPE_CHECKING:
    from lmma.run.counters import Counters

UNSEEN = 0.2  # agreement of repeated rankings, below which progress would hardly be seen

Values = npt.NDArray[np.float64]


@dataclass
class Situation:
    """What a rule may look at before the next generation."""

    strategy: Strategy
    counters: Counters
    seconds: float = 0.0  # since the run began


class Rule(ABC):
    """Watches a run, generation by generation, and answers with a reason to stop or with None.

    The attributes named in ``STATE`` are numbers or lists of numbers, saved with the run.
    """

    ENDINGS: ClassVar[tuple[Ending, ...]]
    STATE: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        RULES.append(cls)
        ENDINGS.update({ending.reason: ending for ending in cls.ENDINGS})

    @classmethod
    @abstractmethod
    def make(cls, options: RunOptions, strategy: Strategy, allowance: int | None) -> Self | None:
        """Return the rule for a strategy that is about to start, None if nobody asked for it.

        ``allowance`` is how many evaluations this strategy may use of those of the run.
        """

    def watch(self, ranked: Values) -> None:  # noqa: B027 (many rules look at counters alone)
        """Take in the values of a generation in increasing order, without those that failed.

        Once noise is found it is one value, the average of recent candidates.
        """

    @abstractmethod
    def check(self, now: Situation) -> Stop | None:
        """Return why to stop before the next generation, or None."""

    def get_state(self) -> dict[str, Any]:
        """Return what the rule remembers, as named numbers and arrays."""
        return {name: np.array(getattr(self, name)) for name in self.STATE}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`."""
        for name in self.STATE:
            here, new = getattr(self, name), np.asarray(state[name])
            setattr(self, name, [float(v) for v in new] if isinstance(here, list) else type(here)(new))


RULES: list[type[Rule]] = []  # in the order they are asked


def rules_for(options: RunOptions, strategy: Strategy, allowance: int | None = None) -> list[Rule]:
    """Return fresh rules for a strategy that is about to start."""
    made = (rule.make(options, strategy, allowance) for rule in RULES)
    return [rule for rule in made if rule is not None]


# Targets and budgets, over all restarts


@final
class Target(Rule):
    """Ends a run that has found a value as low as ``ftarget``."""

    ENDINGS = (
        Ending(
            "ftarget", 0, "The target is reached: fun = {value:.6g} <= {ftarget} = {limit:.6g}.", success=True
        ),
    )

    def __init__(self, ftarget: float) -> None:
        self.ftarget = ftarget

    @classmethod
    def make(cls, options: RunOptions, strategy: Strategy, allowance: int | None) -> Self | None:
        """Return the rule if there is a target."""
        return None if options.ftarget is None else cls(options.ftarget)

    def check(self, now: Situation) -> Stop | None:
        """Compare with the best value of the run."""
        noise = now.strategy.noise
        lucky = noise.found and now.strategy.constraints is None  # one value that is reaches any target
        best = noise.level if lucky else now.counters.best_fun
        return Stop("ftarget", "ftarget", best, self.ftarget) if best <= self.ftarget else None


@final
class Budget(Rule):
    """Ends a run that has used its generations, its evaluations or its time."""

    ENDINGS = (
        Ending("maxiter", 4, "The budget is spent: {maxiter} = {limit} generations are done."),
        Ending(
            "maxfevals", 3, "The budget is spent: the next generation would exceed {maxfevals} = {limit}."
        ),
        Ending("maxtime", 5, "Time is up: {value:.3g} s have passed, {maxtime} = {limit:.3g} s."),
    )  # fmt: skip

    def __init__(self, options: RunOptions) -> None:
        self.maxiter, self.maxfevals, self.maxtime = options.maxiter, options.maxfevals, options.maxtime
        self.kept = left_for_polishing(options)

    @classmethod
    def make(cls, options: RunOptions, strategy: Strategy, allowance: int | None) -> Self | None:
        """Return the rule if there is a budget."""
        limits = (options.maxiter, options.maxfevals, options.maxtime)
        return None if limits == (None, None, None) else cls(options)

    def check(self, now: Situation) -> Stop | None:
        """Compare counters and clock with the budget; a generation that would exceed it is not begun."""
        done = now.counters
        if self.maxiter is not None and done.generation >= self.maxiter:
            return Stop("maxiter", "maxiter", done.generation, self.maxiter)
        if self.maxfevals is not None and done.evaluations + self._next(now) > self.maxfevals:
            return Stop("maxfevals", "maxfevals", done.evaluations, self.maxfevals)
        if self.maxtime is not None and now.seconds >= self.maxtime:
            return Stop("maxtime", "maxtime", now.seconds, self.maxtime)
        return None

    def _next(self, now: Situation) -> int:
        """Return what the next generation takes, and what is kept for the end: a last look, polishing."""
        strategy = now.strategy
        if strategy.noise.treatment is None:
            return strategy.popsize + (self.kept if now.counters.evaluations else 0)
        repeats = 0 if now.counters.evaluations == 0 else len(strategy.again)
        return strategy.popsize + repeats + reserve(strategy)


@final
class Failing(Rule):
    """Ends a run in which nothing is to be hoped for: some generations in a row without a single value."""

    ENDINGS = (Ending("failures", 12, "Every evaluation failed for {value:.0f} generations in a row."),)
    PATIENCE = 3  # generations

    @classmethod
    def make(cls, options: RunOptions, strategy: Strategy, allowance: int | None) -> Self | None:
        """Return the rule, which every run has."""
        return cls()

    def check(self, now: Situation) -> Stop | None:
        """Look at how many generations in a row failed."""
        failing = now.counters.failing
        return Stop("failures", None, failing) if failing >= self.PATIENCE else None


# Convergence and its opposite; what ends one strategy lets restarts begin


@final
class StrategyStops(Rule):
    """Passes on what a strategy can tell from its own state."""

    ENDINGS = (
        Ending("tolx", 1, "Converged: steps of {value:.3g} in x are below {tolx} = {limit:.3g}; a smaller "
               "{tolx} searches on.", success=True, restarts=True),
        Ending("tolfun", 2, "Converged: fun varies by {value:.3g}, below {tolfun} = {limit:.3g}; a smaller "
               "{tolfun} searches on.", success=True, restarts=True),
        Ending("settled", 20, "Settled: for {value:.0f} generations no other integer or choice was better; "
               "{restarts[=]} tries elsewhere.", success=True, restarts=True),
        Ending("numerical", 8, "Numerical trouble: sigma = {value}; check the scale of fun and {sigma0}.",
               restarts=True),
        Ending("diverged", 9, "Diverged: sigma grew to {value:.3g}; fun may be unbounded below, or needs "
               "{bounds}.", restarts=True),
        Ending("flat", 11, "Flat: all candidates had the same value for {value:.0f} generations. A larger "
               "{sigma0} may see beyond the plateau, {restarts[=]} tries elsewhere; if fun gives its values "
               "with few digits, more of them help.", restarts=True),
    )  # fmt: skip
    ROUNDED: ClassVar = {
        "tolx": "Converged as far as float32 shows: steps of {value:.3g} are below the last of its seven "
        "digits in x; {dtype['float64']} searches on.",
        "tolfun": "Converged as far as float32 shows: fun varies by {value:.3g}, below the last of its seven "
        "digits; {dtype['float64']} searches on.",
    }

    @classmethod
    def make(cls, options: RunOptions, strategy: Strategy, allowance: int | None) -> Self | None:
        """Return the rule, which every run has."""
        return cls()

    def check(self, now: Situation) -> Stop | None:
        """Ask the strategy; its first reason counts."""
        reasons = now.strategy.stop()
        if not reasons:
            return None
        for reason, value in reasons.items():
            argument = reason if hasattr(now.strategy, reason) else None
            limit = getattr(now.strategy, "least_difference" if reason == "tolfun" else reason, math.nan)
            return Stop(reason, argument, value, limit, words=self._rounded(reason, value, now.strategy))
        return None

    def _rounded(self, reason: str, value: float, strategy: Strategy) -> str:
        """Return what to say where the digits of single precision are used up, else nothing."""
        measured = {"tolx": {"step": value}, "tolfun": {"difference": value}}.get(reason, {})
        return self.ROUNDED[reason] if is_lost(strategy, **measured) else ""


def is_lost(strategy: Strategy, step: float = math.inf, difference: float = math.inf) -> bool:
    """Return whether a step in x, or a difference in fun, is below the last digit of float32, if in use."""
    if strategy.dtype != np.float32:
        return False
    digit = float(np.finfo(np.float32).eps)
    return step < digit * float(np.abs(strategy.mean).max()) or difference < digit * abs(strategy.best_fun)


@final
class Stagnation(Rule):
    """Ends a search in which neither the best nor the median value has improved for long.

    The last and the first 30% of the second half of the run are compared by their medians, as Hansen does in
    BIPOP-CMA-ES (2009) for its last fifth. Where restarts can follow, a fifth is taken here too: a larger
    population does more with what is left of the budget. Without them a fifth would stop LM-MA-ES where it is
    slow but sure (discus: one order of magnitude in 860,000 evaluations); half a run is no accident.

    At most ``KEPT`` generations are remembered, evenly spread.
    """

    ENDINGS = (
        Ending("stagnation", 10, "Stagnated: no progress over the last {value:.0f} generations; "
               "{restarts[=]} tries elsewhere, {noise['auto']} deals with noise, "
               "{stagnation[False]} goes on.", restarts=True),
        Ending("noise", 17, "Stagnated in noise: ranked twice, the same candidates agree by {value:.2f} (1 "
               "without noise, 0 by chance), so what progress is left is hidden. More samples inside fun, a "
               "larger {popsize} or {noise['average']} see further; {stagnation[False]} goes on.",
               restarts=True),
    )  # fmt: skip
    WATCHED = (
        "Stagnated: no progress over the last {value:.0f} generations, and no noise was found that would "
        "explain it; {restarts[=]} tries elsewhere, {stagnation[False]} goes on."
    )
    TREATED = (
        "Stagnated: no progress over the last {value:.0f} generations, with noise that is being dealt with; "
        "more samples inside fun or a larger {popsize} see further, {restarts[=]} tries elsewhere, "
        "{stagnation[False]} goes on."
    )
    ROUNDED = (
        "Stagnated: no progress over the last {value:.0f} generations, as what candidates or values differ "
        "by is below the last of float32's seven digits; {dtype['float64']} searches on."
    )
    AVERAGED = (
        "Stagnated in noise: ranked twice, the same candidates agree by {value:.2f} (1 without noise, 0 by "
        "chance), so what progress is left is hidden, although there were {limit:.3g} times as many "
        "evaluations a generation. More samples inside fun or a larger {popsize} see further; "
        "{stagnation[False]} goes on."
    )
    STATE = ("stride", "seen", "judged_at", "stagnant_for", "best", "median")
    KEPT = 4096

    def __init__(self, n: int, popsize: int, share: float = 0.5) -> None:
        self.share = share
        self.least = 120 + math.ceil(30 * n / popsize)  # generations that are looked at
        # before, values may stand still while a metric is learned: so long pycma waits, too
        self.earliest = max(2 * self.least, math.ceil(n * (5 + 100 / popsize)))
        self.stride = 1
        self.seen = 0
        self.judged_at = 0
        self.stagnant_for = 0  # generations, once that has been found
        self.best: list[float] = []
        self.median: list[float] = []

    @classmethod
    def make(cls, options: RunOptions, strategy: Strategy, allowance: int | None) -> Self | None:
        """Return the rule unless it is switched off."""
        if not options.stagnation:
            return None
        return cls(strategy.n, strategy.popsize, 0.2 if options.restarts else 0.5)

    def watch(self, ranked: Values) -> None:
        """Remember best and median of every ``stride``-th generation."""
        if len(ranked) and self.seen % self.stride == 0:
            self.best.append(ranked.item(0))
            self.median.append(ranked.item(len(ranked) // 2))
            if len(self.best) >= self.KEPT:
                self.best, self.median = self.best[::2], self.median[::2]
                self.stride *= 2
        self.seen += 1

    def check(self, now: Situation) -> Stop | None:
        """Judge anew whenever the run has grown by a hundredth, and not while noise is being dealt with."""
        if self.seen >= self.earliest and self.seen >= 1.01 * self.judged_at:
            self.judged_at = self.seen
            if not (self._improved(self.best) or self._improved(self.median)):
                self.stagnant_for = self.window
        if not self.stagnant_for:
            return None
        noise = now.strategy.noise
        if noise.found and noise.has_more_to_try:
            self.stagnant_for = 0
            return None
        if noise.found and noise.quality < UNSEEN:
            words = self.AVERAGED if noise.repeats > 1 else ""
            return Stop("noise", "noise", max(0.0, noise.quality), noise.repeats, words=words)
        words = "" if noise.treatment is None else self.TREATED if noise.found else self.WATCHED
        if is_lost(now.strategy, now.strategy.spread, now.strategy.spread_fun):
            words = self.ROUNDED
        return Stop("stagnation", "stagnation", self.stagnant_for, words=words)

    @property
    def window(self) -> int:
        """Generations that are looked at."""
        return max(self.least, int(self.share * self.seen))

    def _improved(self, record: list[float]) -> bool:
        """Return whether the end of the last generations of a record lies below their beginning."""
        count = min(len(record), self.window // self.stride)
        part = max(1, (3 * count) // 10)
        beginning, end = record[-count : part - count or None], record[-part:]
        if max(end) < min(beginning):  # so are the medians, which take ten times as long
            return True
        return bool(np.median(end) < np.median(beginning))


@final
class Plateau(Rule):
    """Ends a search that creeps over plateaus, where a restart with more candidates can follow.

    In a third of the last n generations the best quarter of the candidates had one and the same value, as in
    Hansen's BIPOP-CMA-ES (2009); and the best values of the last third of them are no lower than those of the
    first: a function of few values, such as a count of errors, may go on falling. Where all candidates have
    the same value steps are lengthened until some do not; integers settle by a rule of their own.
    """

    ENDINGS = (
        Ending("plateau", 21, "On a plateau: in {value:.0f} of the last {limit} generations the best quarter "
               "of the candidates had one value, and it has not fallen. A larger {popsize} sees further; "
               "{stagnation[False]} goes on.", restarts=True),
    )  # fmt: skip
    STATE = ("tied", "best")
    LEAST = 20  # generations that are looked at, for few variables

    def __init__(self, n: int) -> None:
        self.window = max(n, self.LEAST)
        self.tied: list[float] = []
        self.best: list[float] = []

    @classmethod
    def make(cls, options: RunOptions, strategy: Strategy, allowance: int | None) -> Self | None:
        """Return the rule where restarts can follow."""
        if not options.stagnation or not options.restarts or strategy.settling is not None:
            return None
        return cls(strategy.n)

    def watch(self, ranked: Values) -> None:
        """Remember the best value of a generation, and whether a quarter have it."""
        quarter = math.ceil(0.1 + len(ranked) / 4)
        if quarter >= len(ranked):
            return
        self.tied.append(float(ranked.item(0) == ranked.item(quarter) != ranked.item(-1)))
        self.best.append(ranked.item(0))
        if len(self.tied) >= 2 * self.window:
            self.tied, self.best = self.tied[-self.window :], self.best[-self.window :]

    def check(self, now: Situation) -> Stop | None:
        """Judge after a generation with equal values."""
        if len(self.tied) < self.window or not self.tied[-1]:
            return None
        tied, best, third = sum(self.tied[-self.window :]), self.best[-self.window :], self.window // 3
        if 3 * tied <= self.window or np.median(best[-third:]) < np.median(best[:third]):
            return None
        return Stop("plateau", "stagnation", tied, self.window)


@final
class Allowance(Rule):
    """Ends one of several runs between restarts when it has used its own share of evaluations."""

    ENDINGS = (
        Ending("allowance", 13, "This restart's share of {limit} evaluations is used; more {restarts[=]} or "
               "a larger {maxfevals} goes on.", restarts=True),
    )  # fmt: skip

    def __init__(self, evaluations: int) -> None:
        self.evaluations = evaluations

    @classmethod
    def make(cls, options: RunOptions, strategy: Strategy, allowance: int | None) -> Self | None:
        """Return the rule if the strategy has a share of its own."""
        return None if allowance is None else cls(allowance)

    def check(self, now: Situation) -> Stop | None:
        """Compare what the strategy has used with its share."""
        used = now.strategy.evaluations
        return Stop("allowance", "restarts", used, self.evaluations) if used >= self.evaluations else None
