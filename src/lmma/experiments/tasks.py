"""What there is to do, as frozen data: each task has a key by which figures and stores share it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import util
from typing import Any, ClassVar

from lmma import problems
from lmma.experiments.own_problems import find_problem
from lmma.experiments.peers import PEERS, peer_class
from lmma.kernels.install import how_to_install
from lmma.store import Record, key_of
from lmma.strategies import Strategy, strategy_class

TARGET = 1e-10  # f_tar of the paper
SIGMA0 = 3.0
CHANGES = ("monotone", "translation", "scale", "update")


@dataclass(frozen=True)
class Task:
    """Something to do once and record."""

    kind: ClassVar[str]
    exclusive: ClassVar[bool] = False  # whether nothing else may run beside it, since it takes times

    @property
    def key(self) -> str:
        """A hash of everything that decides the outcome."""
        return key_of(self.kind, asdict(self))

    @property
    def label(self) -> str:
        """The task in a few words."""
        return " ".join([self.kind, *(str(value) for value in asdict(self).values())])

    def refuse_what_is_unknown(self) -> None:
        """Raise ValueError if a name in the task means nothing, before any work starts."""


@dataclass(frozen=True)
class Solve(Task):
    """One run of a method on a problem, to a target: the unit of every comparison."""

    problem: str  # a name, or "module:function"
    method: str  # a registered name, that of a peer, or "module:Class"
    n: int
    seed: int
    budget: int
    target: float = TARGET
    sigma0: float = SIGMA0

    kind = "run"

    def __post_init__(self) -> None:
        for name in ("n", "budget"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")
        if not self.sigma0 > 0:
            raise ValueError(f"sigma0 must be positive, got {self.sigma0}")

    @property
    def label(self) -> str:
        """The run in a few words."""
        return f"{self.method} on {self.problem}, n={self.n}, seed {self.seed}"

    def refuse_what_is_unknown(self) -> None:
        """Raise ValueError if there is no such problem or method."""
        find_problem(self.problem)
        find_method(self.method)


@dataclass(frozen=True)
class Measurement(Task):
    """What a few generations of a method cost, without any objective."""

    method: str
    n: int

    def refuse_what_is_unknown(self) -> None:
        """Raise ValueError if there is no such method."""
        find_method(self.method)


@dataclass(frozen=True)
class Timing(Measurement):
    """Internal cost of a generation."""

    kind = "timing"
    exclusive = True

    @property
    def label(self) -> str:
        """The task in a few words."""
        return f"time a generation of {self.method}, n={self.n}"


@dataclass(frozen=True)
class Memory(Measurement):
    """Peak memory of a few generations."""

    kind = "memory"

    @property
    def label(self) -> str:
        """The task in a few words."""
        return f"memory of {self.method}, n={self.n}"


@dataclass(frozen=True)
class Invariance(Task):
    """How far two runs part that ought to be one: the problem, and the problem changed."""

    method: str
    change: str  # one of CHANGES
    n: int
    seed: int
    generations: int = 100

    kind = "invariance"

    def __post_init__(self) -> None:
        if self.change not in CHANGES:
            raise ValueError(f"change must be one of {', '.join(CHANGES)}; got {self.change!r}")

    @property
    def label(self) -> str:
        """The task in a few words."""
        return f"{self.method} under {self.change}, n={self.n}, seed {self.seed}"


@dataclass(frozen=True)
class LargeScale(Task):
    """One function of COCO's suite bbob-largescale, with restarts until the budget is spent."""

    suite: ClassVar[str] = "bbob-largescale"
    dims: ClassVar[tuple[int, ...]] = (20, 40, 80, 160, 320, 640)
    functions: ClassVar[range] = range(1, 25)
    others: ClassVar[tuple[str, ...]] = ()  # methods with an interface of their own for this suite

    function: int  # one of functions
    instance: int
    method: str
    n: int
    budget: int
    seed: int = 1

    kind = "largescale"

    def __post_init__(self) -> None:
        if self.function not in self.functions:
            first, last = self.functions[0], self.functions[-1]
            raise ValueError(f"function must be {first} to {last}, got {self.function}")
        if self.n not in self.dims:
            raise ValueError(f"{self.suite} has n = {', '.join(map(str, self.dims))}; got {self.n}")

    @property
    def label(self) -> str:
        """The task in a few words."""
        return f"{self.method} on f{self.function}, instance {self.instance}, n={self.n}"

    def refuse_what_is_unknown(self) -> None:
        """Raise ValueError if there is no such method, or if COCO is not installed."""
        if self.method not in self.others:
            find_method(self.method)
        if util.find_spec("cocoex") is None:
            raise ValueError(
                f"{self.suite} needs the package coco-experiment: {how_to_install('largescale')}"
            )


@dataclass(frozen=True)
class Bbob(LargeScale):
    """One function of COCO's suite bbob, likewise."""

    suite = "bbob"
    dims = (2, 3, 5, 10, 20, 40)

    kind = "bbob"


@dataclass(frozen=True)
class BbobConstrained(LargeScale):
    """One function of COCO's suite bbob-constrained: nine functions, each with six numbers of constraints."""

    suite = "bbob-constrained"
    dims = (2, 3, 5, 10, 20, 40)
    functions = range(1, 55)
    others = ("auto", "pycma", "cobyqa")

    kind = "bbob-constrained"


@dataclass(frozen=True)
class BbobMixint(LargeScale):
    """One function of COCO's suite bbob-mixint: four of five variables are integers."""

    suite = "bbob-mixint"
    dims = (5, 10, 20, 40, 80, 160)
    others = ("auto", "pycma")

    kind = "bbob-mixint"


@dataclass(frozen=True)
class BbobNoisy(LargeScale):
    """One function of COCO's suite bbob-noisy."""

    suite = "bbob-noisy"
    dims = (2, 3, 5, 10, 20, 40)
    functions = range(101, 131)
    others = ("auto", "pycma")

    kind = "bbob-noisy"


@dataclass(frozen=True)
class Race(Task):
    """How many seconds a method needs to a target, called as its own package would, on one core."""

    problem: str
    method: str  # as that of Solve, or "auto"
    n: int
    seed: int
    budget: int
    patience: float  # seconds after which a run is given up
    target: float = TARGET
    sigma0: float = SIGMA0

    kind = "seconds"
    exclusive = True

    def __post_init__(self) -> None:
        for name in ("n", "budget"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.patience > 0:
            raise ValueError(f"patience must be a positive number of seconds, got {self.patience}")

    @property
    def label(self) -> str:
        """The run in a few words."""
        return f"{self.method} on {self.problem}, n={self.n}, against the clock"

    def refuse_what_is_unknown(self) -> None:
        """Raise ValueError if there is no such problem or method."""
        problems.get(self.problem)
        if self.method != "auto":
            find_method(self.method)


KINDS: dict[str, type[Task]] = {
    cls.kind: cls for cls in (Solve, Timing, Memory, Invariance, LargeScale, Bbob, Race)
}
SUITES: dict[str, type[LargeScale]] = {
    cls.suite: cls for cls in (LargeScale, Bbob, BbobConstrained, BbobMixint, BbobNoisy)
}
KINDS |= {cls.kind: cls for cls in SUITES.values()}


def task_from(kind: str, spec: dict[str, Any]) -> Task:
    """Return the task a record was made for."""
    cls = KINDS[kind]
    return cls(**{field.name: spec[field.name] for field in fields(cls)})


def record_fault(key: str, kind: str, record: Record) -> str | None:
    """Return what is wrong with a record of ours, or None: the check of :class:`Store`."""
    if kind not in KINDS:
        return None  # another kind of work that shares the store judges its own
    try:
        task = task_from(kind, record["spec"])
    except (KeyError, TypeError, ValueError):
        return f"its spec is not that of a {kind}"
    return None if task.key == key else "its key does not belong to its spec"


@dataclass(frozen=True)
class Grid:
    """Problems x methods x dimensions x seeds under one budget."""

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    dims: tuple[int, ...]
    seeds: int = 5
    budget: int = 200_000  # evaluations for each dimension: the run may use budget * n
    target: float = TARGET
    sigma0: float = SIGMA0

    def tasks(self) -> Iterator[Solve]:
        """Return every run of the grid."""
        for n in self.dims:
            for problem in self.problems:
                for method in self.methods:
                    for seed in range(1, self.seeds + 1):
                        yield Solve(problem, method, n, seed, self.budget * n, self.target, self.sigma0)


@dataclass(frozen=True)
class Experiment:
    """A figure's worth of tasks."""

    name: str
    title: str
    tasks: tuple[Task, ...]

    @classmethod
    def of(cls, name: str, title: str, *parts: Grid | Task) -> Experiment:
        """Return an experiment made of grids and single tasks, each task once."""
        tasks: dict[str, Task] = {}
        for part in parts:
            for task in part.tasks() if isinstance(part, Grid) else (part,):
                tasks.setdefault(task.key, task)
        return cls(name, title, tuple(tasks.values()))


def unique(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks in order, each once."""
    return list({task.key: task for task in tasks}.values())


def refuse_what_is_unknown(tasks: Sequence[Task]) -> None:
    """Raise ValueError for the first task that names something unknown."""
    seen: set[tuple[str, ...]] = set()
    for task in tasks:
        names = tuple(value for value in asdict(task).values() if isinstance(value, str))
        if names not in seen:
            seen.add(names)
            task.refuse_what_is_unknown()


def find_method(name: str) -> type[Strategy]:
    """Return the strategy called ``name``, one of ours or a peer's, or the class at ``module:Class``."""
    return peer_class(name) if name in PEERS else strategy_class(name)
