"""Run state, which checkpoints save and restore."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import FailureRecord
from lmma.numerics.state import (
    AT_LEAST_ONE,
    COUNT,
    DISTANCE,
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    UNIT,
    VALUE,
    Range,
    collect,
    is_count,
    is_number,
    restore,
)
from lmma.run.observers import Progress

if TYPE_CHECKING:
    from lmma.kernels import Key
    from lmma.methods import Strategy
    from lmma.run.observers import Recorder
    from lmma.run.stopping import Rule
    from lmma.run.user_constraints import ConstraintReport, Constraints

Array = npt.NDArray[np.floating]
Values = npt.NDArray[np.float64]


class Stateful(Protocol):
    """A component that is saved with the run."""

    def get_state(self) -> dict[str, Any]:
        """Return the state as named arrays and numbers."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by :meth:`get_state`; raise ValueError for an invalid one."""


class Saved(NamedTuple):
    """A saved run: a header for JSON, and arrays by name."""

    header: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]


def read_record(cls: type, saved: Any, name: str) -> Any:
    """Return an instance of the dataclass ``cls`` from an untrusted header.

    ``cls.FIELDS`` declares the allowed values of each field: a range, a type, or a tuple of these.
    """
    if not isinstance(saved, dict) or saved.keys() != cls.FIELDS.keys():  # type: ignore[attr-defined]
        raise ValueError(name)
    for field_name, allowed in cls.FIELDS.items():  # type: ignore[attr-defined]
        value = saved[field_name]
        if not any(_fits(value, each) for each in (allowed if isinstance(allowed, tuple) else (allowed,))):
            raise ValueError(f"{name}: {field_name}")
    return cls(**saved)


def _fits(value: Any, allowed: Range | type | None) -> bool:
    if not isinstance(allowed, Range):
        return value is None if allowed is None else type(value) is allowed
    return (is_count(value) if allowed.integer else is_number(value)) and allowed.admits(value)


@dataclass(frozen=True)
class Plan:
    """Start of one strategy: population, step size relative to sigma0, and allowance."""

    FIELDS: ClassVar[dict[str, Any]] = {
        "number": COUNT, "popsize": AT_LEAST_ONE, "sigma_factor": POSITIVE, "allowance": (None, COUNT),
        "small": bool, "begin": str,
    }  # fmt: skip

    number: int  # 0 for the first strategy, then the number of the restart
    popsize: int
    sigma_factor: float = 1.0
    allowance: int | None = None  # maximum number of evaluations
    small: bool = False
    begin: str = ""  # what a portfolio begins with


@dataclass(frozen=True)
class SingleRun:
    """Summary of one strategy in a run with restarts."""

    FIELDS: ClassVar[dict[str, Any]] = {
        "popsize": AT_LEAST_ONE, "evaluations": COUNT, "best_fun": VALUE, "reason": str, "small": bool,
        "begin": str, "by_slopes": COUNT, "by_looks": COUNT, "share": UNIT,
        "by_rivals": COUNT, "by_coordinates": COUNT,
    }  # fmt: skip

    popsize: int
    evaluations: int
    best_fun: float
    reason: str
    small: bool = False  # one of BIPOP's small populations
    begin: str = ""  # what a portfolio began with
    by_slopes: int = 0  # of the evaluations, those by quasi-Newton
    by_looks: int = 0  # of the evaluations, those by which a portfolio decides
    share: float = 0.0  # evaluations that quasi-Newton deserves in restarts, relative to the other search
    by_rivals: int = 0  # of the evaluations, those by rivals of an evolution strategy
    by_coordinates: int = 0  # of the evaluations, those of the search by coordinates


@dataclass
class Counters:
    """Counts evaluations, batches and failures over all restarts, and keeps the best evaluation."""

    FIELDS: ClassVar[dict[str, Any]] = {
        "evaluations": COUNT, "generation": COUNT, "failures": COUNT, "late": COUNT, "failing": NOT_NEGATIVE,
        "best_fun": VALUE, "violation": DISTANCE, "fun_at_best": VALUE, "seconds": NOT_NEGATIVE,
    }  # fmt: skip

    evaluations: int = 0
    generation: int = 0  # batches told to the strategy
    failures: int = 0  # evaluations without a finite value
    late: int = 0  # evaluations that were not waited for
    failing: float = 0  # consecutive failed generations; a smaller batch counts as a fraction
    best_fun: float = math.inf
    violation: float = math.inf  # at best_x; used with constraints, as is fun_at_best
    fun_at_best: float = math.inf  # value at best_x, also if infeasible
    seconds: float = 0.0  # elapsed, including earlier processes
    best_x: Array | None = None
    raw_at_best: Values | None = None  # values of the constraints at best_x

    def count(self, values: Values, late: npt.NDArray[np.bool_] | None) -> int:
        """Count evaluations, failures and late results; return the number of NaN values."""
        self.evaluations += len(values)
        missing = int(np.count_nonzero(np.isnan(values)))
        if missing:
            dropped = 0 if late is None else int(np.count_nonzero(late))
            self.failures += missing - dropped
            self.late += dropped
        return missing

    def take(
        self,
        candidates: Array,
        values: Values,
        late: npt.NDArray[np.bool_] | None,
        report: ConstraintReport | None = None,
    ) -> None:
        """Count one evaluation per row and keep the best, according to constraints if there are any."""
        best = values.argmin()  # index of a NaN if there is one
        value = values.item(best)
        if value == value:
            self.evaluations += len(values)
        elif self.count(values, late) == len(values):
            return
        else:
            best = np.nanargmin(values)
            value = values.item(best)
        if report is not None:
            self._take_report(report, candidates, values)
        elif value < self.best_fun:
            self.best_fun = value
            if self.best_x is None or len(self.best_x) != candidates.shape[1]:
                self.best_x = candidates[best].copy()
            else:
                self.best_x[...] = candidates[best]

    def _take_report(self, report: ConstraintReport, candidates: Array, values: Values) -> None:
        """Keep the best candidate according to the constraints."""
        from lmma.layers.constraints import better

        best = report.best(values)
        violation, value = report.violations.item(best), values.item(best)
        if not better((violation, value), (self.violation, self.fun_at_best), report.tolerance):
            return
        self.violation, self.fun_at_best = violation, value
        self.raw_at_best, self.best_x = report.raw[best].copy(), candidates[best].copy()
        self.best_fun = value if violation <= report.tolerance else math.inf

    def get_state(self) -> Saved:
        """Return the counts, and the best point as arrays if there is one."""
        points = {"best_x": self.best_x, "raw_at_best": self.raw_at_best}
        arrays = {f"counters.{name}": point for name, point in points.items() if point is not None}
        return Saved({name: getattr(self, name) for name in self.FIELDS}, arrays)

    @classmethod
    def from_state(cls, state: Saved) -> Counters:
        """Return the counters that :meth:`get_state` saved; raise ValueError for an invalid state."""
        made: Counters = read_record(cls, state.header, "counters")
        for name in ("best_x", "raw_at_best"):
            point = state.arrays.get(f"counters.{name}")
            if point is not None and (point.dtype.kind != "f" or point.ndim != 1 or not FINITE.admits(point)):
                raise ValueError(f"counters.{name}")
            setattr(made, name, point)
        # a best point exists exactly if a value does
        if (made.best_x is not None) != (made.raw_at_best is not None or math.isfinite(made.best_fun)):
            raise ValueError("counters.best_x")
        return made


@final
class AveragedMean:
    """The averaged mean of a noisy search: the best one over all finished restarts.

    Attributes
    ----------
    level, x : float, ndarray
        Average value at the averaged mean, and that mean.
    exact_level, exact_x : float, ndarray
        Best value and point of the restarts that ended without noise. If noise is proportional to fun, such
        a restart may have found what the noisy ones have missed.
    """

    STATE: ClassVar[Mapping[str, Range]] = {
        "level": VALUE, "x": FINITE, "exact_level": VALUE, "exact_x": FINITE,
    }  # fmt: skip

    def __init__(self, n: int) -> None:
        self.level, self.exact_level = math.inf, math.inf
        self.x: Array = np.zeros(n)
        self.exact_x: Array = np.zeros(n)

    def take(self, strategy: Strategy) -> None:
        """Keep the averaged mean of a finished strategy if its average value is the lowest.

        Without noise, keep its best point.
        """
        noise = strategy.noise
        if noise.found:
            if noise.level < self.level:
                self.level, self.x = noise.level, np.array(strategy.averaged_mean(), dtype=np.float64)
        elif strategy.best_fun < self.exact_level:
            self.exact_level, self.exact_x = strategy.best_fun, np.array(strategy.best_x, dtype=np.float64)

    def best(self, strategy: Strategy) -> tuple[float, Array]:
        """Return the lowest average of the current ``strategy`` and earlier ones, and its averaged mean."""
        if self.level < strategy.noise.level or not strategy.noise.found:
            return self.level, self.x.astype(strategy.dtype)
        return strategy.noise.level, strategy.averaged_mean()

    def get_state(self) -> dict[str, Any]:
        """Return the state as named arrays and numbers."""
        return collect({"": self})

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by :meth:`get_state`."""
        restore({"": self}, state)


def start_of(strategy: Strategy) -> tuple[Array, float | Array]:
    """Return the mean, (n,), and the steps of a strategy that has not been told any values."""
    return strategy.mean.copy(), strategy.steps


MakeRestart = Callable[[Plan], "tuple[Strategy, tuple[Rule, ...]]"]  # strategy and rules of a restart


@dataclass
class RunState:
    """Run state: strategy, rules, counters, best point and restarts.

    Parameters
    ----------
    strategy : Strategy
        The current strategy.
    rules : tuple of Rule
        Its stopping rules.
    make_restart : callable
        Creates strategy and rules of a restart from its plan.
    failures : FailureRecord
        The record of the evaluator.
    constraints : Constraints, optional
        The declared constraints.
    make_constraints : callable, optional
        Creates constraints if ``fun`` returns some although none were declared.
    averaged : AveragedMean, optional
        Present if noise is handled.
    recorder : Recorder, optional
        Present if a history is kept.
    parts : mapping
        Further components to save, by name.

    Attributes
    ----------
    key : (int, int)
        Source of all randomness.
    plan : Plan
        Start parameters of the current strategy.
    finished : list of SingleRun
        Summaries of the previous strategies.
    start : (ndarray, float or ndarray)
        First mean and steps of the current strategy.
    consistent : bool
        False during an update, when the state must not be saved.
    """

    strategy: Strategy
    rules: tuple[Rule, ...]
    make_restart: MakeRestart
    failures: FailureRecord
    constraints: Constraints | None = None
    make_constraints: Callable[[], Constraints] | None = None
    averaged: AveragedMean | None = None
    recorder: Recorder | None = None
    parts: Mapping[str, Stateful] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    finished: list[SingleRun] = field(default_factory=list)
    consistent: bool = True

    def __post_init__(self) -> None:
        self.key: Key = self.strategy.key
        self.start = start_of(self.strategy)
        self.strategy.record.snapshots.stop()  # the run keeps its own record
        self.plan = Plan(0, self.strategy.popsize)
        self._before_cut: Saved | None = None

    def restart(self, plan: Plan, finished: list[SingleRun]) -> None:
        """Restart according to ``plan``; ``finished`` are the summaries of previous strategies."""
        if self.averaged is not None:
            self.averaged.take(self.strategy)
        strategy, rules = self.make_restart(plan)
        strategy.record.snapshots.stop()
        # an interrupt between the assignments must not save a mixture of two strategies
        self.consistent = False
        self.strategy, self.rules, self.plan, self.finished = strategy, rules, plan, finished
        self.start = start_of(strategy)
        self.consistent = True

    def single_runs(self, reason: str, other_evaluations: int = 0) -> list[SingleRun]:
        """Return summaries of all strategies, the current one as if it ended now for ``reason``.

        ``other_evaluations`` were not made by the strategy.
        """
        used = self.counters.evaluations - sum(run.evaluations for run in self.finished) - other_evaluations
        strategy = self.strategy
        present = SingleRun(
            strategy.popsize, used, strategy.best_fun, reason, self.plan.small, *strategy.division
        )  # fmt: skip
        return [*self.finished, present]

    def constraints_for(self, constraint_values: Values | None) -> Constraints | None:
        """Return the constraints; create them if ``fun`` returned undeclared ones."""
        if self.constraints is None and constraint_values is not None:
            assert self.make_constraints is not None
            self.constraints = self.make_constraints()
        return self.constraints

    def constraint_report(
        self, candidates: Array, values: Values, constraint_values: Values | None
    ) -> ConstraintReport | None:
        """Return the constraint report; ``constraint_values`` were returned by fun with its values."""
        constraints = self.constraints_for(constraint_values)
        return (
            None
            if constraints is None
            else constraints.constraint_report(candidates, values, constraint_values)
        )

    def progress(self) -> Progress:
        """Return the current progress, for observers."""
        counters, strategy = self.counters, self.strategy
        progress = Progress(
            counters.evaluations,
            counters.generation,
            counters.best_fun,
            strategy.sigma,
            counters.failures,
            counters.seconds,
            strategy.spread,
            strategy.popsize,
            len(self.finished),
            counters.late,
            math.nan if counters.raw_at_best is None else counters.violation,
        )
        division = strategy.division
        if division.begin:
            slopes = division.by_slopes + sum(run.by_slopes for run in self.finished)
            progress = progress._replace(slopes=slopes)
        if self.averaged is None:
            return progress
        noise = strategy.noise
        return progress._replace(
            quality=noise.quality, repeats=noise.repeats, rate=noise.rate, average_fun=strategy.average_fun
        )

    # Saving

    def freeze_saved_state(self) -> None:
        """Make :meth:`get_state` return the current state from now on.

        A batch that the budget truncates is counted but not told. A resumed run with a larger budget must
        evaluate the whole batch, so the state before it is saved.
        """
        self._before_cut = self.get_state()

    def get_state(self) -> Saved:
        """Return the state as a header for JSON and named arrays."""
        if self._before_cut is not None:
            return self._before_cut
        counters = self.counters.get_state()
        header = {
            "key": [str(word) for word in self.key],  # 64 bits exceed the precision of JSON numbers
            "plan": asdict(self.plan),
            "counters": counters.header,
            "finished": [asdict(single) for single in self.finished],
            "constraints": [] if self.constraints is None else self.constraints.sizes,
            **self.failures.get_state(),
        }
        arrays = dict(counters.arrays)
        for name, part in self._components():
            arrays |= {f"{name}.{label}": np.asarray(value) for label, value in part.get_state().items()}
        return Saved(header, arrays)

    def set_state(self, saved: Saved) -> None:
        """Restore a state returned by :meth:`get_state`; raise ValueError for an invalid one."""
        read = SavedRun.of(saved)
        self.key, self.counters = read.key, read.counters
        self.failures.set_state(saved.header)
        if read.constraint_sizes:
            self.constraints = self.constraints_for(np.zeros(0))
            assert self.constraints is not None
            self.constraints.set_layout(read.constraint_sizes)
            self.constraints.prepare(self.strategy)
        self.finished = read.finished
        if read.plan.number != 0:
            from lmma.methods.memory_check import check_saved_popsize

            check_saved_popsize(self.strategy, read.plan.popsize)
            self.restart(read.plan, read.finished)
        best = self.counters.best_x
        if best is not None and (best.shape, best.dtype) != ((self.strategy.n,), self.strategy.dtype):
            raise ValueError("counters.best_x")
        for name, part in self._components():
            prefix = f"{name}."
            state = {k.removeprefix(prefix): v for k, v in saved.arrays.items() if k.startswith(prefix)}
            if state or part is self.strategy:
                part.set_state(state)

    def _components(self) -> Iterator[tuple[str, Any]]:
        """Yield the stateful components, by name."""
        yield "strategy", self.strategy
        if self.averaged is not None:
            yield "averaged", self.averaged
        for rule in self.rules:
            if rule.STATE:
                yield f"rule.{type(rule).__name__}", rule
        if self.recorder is not None:
            yield "history", self.recorder
        yield from self.parts.items()


@dataclass(frozen=True)
class SavedRun:
    """The parts of a saved run that can be read without a strategy."""

    key: Key
    plan: Plan
    counters: Counters
    finished: list[SingleRun]
    failures: FailureRecord
    constraint_sizes: list[int]

    @classmethod
    def of(cls, saved: Saved) -> SavedRun:
        """Return the parts of ``saved``; raise ValueError with the name of an invalid one."""
        header = saved.header
        key = header.get("key")
        if not (isinstance(key, list) and len(key) == 2 and all(map(_is_word64, key))):
            raise ValueError("key")
        finished, sizes = header.get("finished"), header.get("constraints", [])
        if not isinstance(finished, list):
            raise ValueError("finished")
        if not (isinstance(sizes, list) and all(map(is_count, sizes))):
            raise ValueError("constraints")
        failures = FailureRecord()
        failures.set_state(header)
        return cls(
            (int(key[0]), int(key[1])),
            read_record(Plan, header.get("plan"), "plan"),
            Counters.from_state(Saved(header.get("counters", {}), saved.arrays)),
            [read_record(SingleRun, one, f"finished[{place}]") for place, one in enumerate(finished)],
            failures,
            sizes,
        )


def _is_word64(word: Any) -> bool:
    digits = isinstance(word, str) and word.isascii() and word.isdigit() and len(word) <= 20
    return digits and int(word) < 2**64
