"""Tasks as frozen data; the key of a task identifies its record in stores and figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import util
from typing import Any, ClassVar

from lmma import problems
from lmma.methods import Strategy, strategy_class
from lmma.methods.registry import choose_method
from lmma_lab.install import how_to_install
from lmma_lab.peers import PEERS, peer_class
from lmma_lab.store import Record, key_of
from lmma_lab.user_problems import find_problem

TARGET = 1e-10  # f_tar of the paper
SIGMA0 = 3.0
CHANGES = ("monotone", "translation", "scale", "update")


@dataclass(frozen=True)
class Task:
    """A unit of work that is executed once and recorded."""

    kind: ClassVar[str]
    exclusive: ClassVar[bool] = False  # no other task may run at the same time, because it measures time

    @property
    def key(self) -> str:
        """Hash of all fields that determine the outcome."""
        return key_of(self.kind, asdict(self))

    @property
    def label(self) -> str:
        """Short description of the task."""
        return " ".join([self.kind, *(str(value) for value in asdict(self).values())])

    def check_names(self) -> None:
        """Raise ValueError if the task names something unknown; called before any work starts."""


@dataclass(frozen=True)
class Solve(Task):
    """One run of a method on a problem until a target is reached."""

    problem: str  # a name, or "module:function"
    method: str  # a registered name, "auto", that of a peer, or "module:Class"
    n: int
    seed: int
    budget: int
    target: float = TARGET
    sigma0: float = SIGMA0

    kind = "run"

    def __post_init__(self) -> None:
        _check_counts(self, "n", "budget")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")
        if not self.sigma0 > 0:
            raise ValueError(f"sigma0 must be positive, got {self.sigma0}")

    @property
    def label(self) -> str:
        """Short description of the run."""
        return f"{self.method} on {self.problem}, n={self.n}, seed {self.seed}"

    def check_names(self) -> None:
        """Raise ValueError for an unknown problem or method."""
        find_problem(self.problem)
        find_method(self.method, self.n)


@dataclass(frozen=True)
class Measurement(Task):
    """Cost of a few generations of a method without an objective."""

    method: str
    n: int

    def check_names(self) -> None:
        """Raise ValueError for an unknown method."""
        find_method(self.method, self.n)


@dataclass(frozen=True)
class Timing(Measurement):
    """Measurement of the internal time per generation; it runs alone."""

    kind = "timing"
    exclusive = True

    @property
    def label(self) -> str:
        """Short description of the task."""
        return f"time per generation of {self.method}, n={self.n}"


@dataclass(frozen=True)
class Memory(Measurement):
    """Measurement of the peak memory of a few generations."""

    kind = "memory"

    @property
    def label(self) -> str:
        """Short description of the task."""
        return f"memory of {self.method}, n={self.n}"


@dataclass(frozen=True)
class Invariance(Task):
    """Largest difference between a run and one on a transformed problem; the two should coincide."""

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
        """Short description of the task."""
        return f"{self.method} under {self.change}, n={self.n}, seed {self.seed}"


@dataclass(frozen=True)
class LargeScale(Task):
    """Runs on one function of COCO's suite bbob-largescale, with restarts until the budget is spent."""

    suite: ClassVar[str] = "bbob-largescale"
    dims: ClassVar[tuple[int, ...]] = (20, 40, 80, 160, 320, 640)
    functions: ClassVar[range] = range(1, 25)
    others: ClassVar[tuple[str, ...]] = ()  # methods with a special adaptor for this suite

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
            raise ValueError(f"function must be between {first} and {last}, got {self.function}")
        if self.n not in self.dims:
            raise ValueError(
                f"n must be one of {', '.join(map(str, self.dims))} for {self.suite}, got {self.n}"
            )

    @property
    def label(self) -> str:
        """Short description of the task."""
        return f"{self.method} on f{self.function}, instance {self.instance}, n={self.n}"

    def check_names(self) -> None:
        """Raise ValueError for an unknown method, or if COCO is not installed."""
        if self.method not in self.others:
            find_method(self.method, self.n)
        if util.find_spec("cocoex") is None:
            raise ValueError(
                f"{self.suite} needs the package coco-experiment: {how_to_install('largescale')}"
            )


@dataclass(frozen=True)
class Bbob(LargeScale):
    """Runs on one function of COCO's suite bbob."""

    suite = kind = "bbob"
    dims = (2, 3, 5, 10, 20, 40)


@dataclass(frozen=True)
class BbobConstrained(LargeScale):
    """Runs on one function of COCO's suite bbob-constrained: 9 functions, each with 6 sets of constraints."""

    suite = kind = "bbob-constrained"
    dims = (2, 3, 5, 10, 20, 40)
    functions = range(1, 55)
    others = ("auto", "pycma", "cobyqa")


@dataclass(frozen=True)
class BbobMixint(LargeScale):
    """Runs on one function of COCO's suite bbob-mixint: four of five variables are integers."""

    suite = kind = "bbob-mixint"
    dims = (5, 10, 20, 40, 80, 160)
    others = ("auto", "pycma")


@dataclass(frozen=True)
class BbobNoisy(LargeScale):
    """Runs on one function of COCO's suite bbob-noisy."""

    suite = kind = "bbob-noisy"
    dims = (2, 3, 5, 10, 20, 40)
    functions = range(101, 131)
    others = ("auto", "pycma")


@dataclass(frozen=True)
class Race(Task):
    """Seconds to a target on one core, with the method called through its package's usual interface."""

    problem: str
    method: str  # as in Solve
    n: int
    seed: int
    budget: int
    patience: float  # seconds after which a run is aborted
    target: float = TARGET
    sigma0: float = SIGMA0

    kind = "seconds"
    exclusive = True

    def __post_init__(self) -> None:
        _check_counts(self, "n", "budget")
        if not self.patience > 0:
            raise ValueError(f"patience must be a positive number of seconds, got {self.patience}")

    @property
    def label(self) -> str:
        """Short description of the run."""
        return f"{self.method} on {self.problem}, n={self.n}, timed"

    def check_names(self) -> None:
        """Raise ValueError for an unknown problem or method."""
        problems.get(self.problem)
        find_method(self.method, self.n)


KINDS: dict[str, type[Task]] = {
    cls.kind: cls for cls in (Solve, Timing, Memory, Invariance, LargeScale, Bbob, Race)
}
SUITES: dict[str, type[LargeScale]] = {
    cls.suite: cls for cls in (LargeScale, Bbob, BbobConstrained, BbobMixint, BbobNoisy)
}
KINDS |= {cls.kind: cls for cls in SUITES.values()}


def _check_counts(task: Task, *names: str) -> None:
    """Raise ValueError unless these fields are at least 1."""
    for name in names:
        if getattr(task, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(task, name)}")


def task_from(kind: str, spec: dict[str, Any]) -> Task:
    """Return the task described by the kind and spec of a record."""
    cls = KINDS[kind]
    return cls(**{field.name: spec[field.name] for field in fields(cls)})


def record_fault(key: str, kind: str, record: Record) -> str | None:
    """Return the fault of a record of a task, or None; :class:`Store` calls this check."""
    if kind not in KINDS:
        return None  # such as attacks, which share the store and check their own records
    try:
        task = task_from(kind, record["spec"])
    except (KeyError, TypeError, ValueError):
        return f"its spec is not valid for kind {kind!r}"
    return None if task.key == key else "its key does not match its spec"


@dataclass(frozen=True)
class Grid:
    """All combinations of problems, methods, dimensions and seeds with one budget."""

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    dims: tuple[int, ...]
    seeds: int = 5
    budget: int = 200_000  # evaluations per dimension: a run may use budget * n
    target: float = TARGET
    sigma0: float = SIGMA0

    def tasks(self) -> Iterator[Solve]:
        """Yield every run of the grid."""
        for n in self.dims:
            for problem in self.problems:
                for method in self.methods:
                    for seed in range(1, self.seeds + 1):
                        yield Solve(problem, method, n, seed, self.budget * n, self.target, self.sigma0)


@dataclass(frozen=True)
class Experiment:
    """The tasks behind one figure, with its name and title."""

    name: str
    title: str
    tasks: tuple[Task, ...]

    @classmethod
    def of(cls, name: str, title: str, *parts: Grid | Task) -> Experiment:
        """Return an experiment made of grids and single tasks, without duplicates."""
        tasks: dict[str, Task] = {}
        for part in parts:
            for task in part.tasks() if isinstance(part, Grid) else (part,):
                tasks.setdefault(task.key, task)
        return cls(name, title, tuple(tasks.values()))


def unique(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks in order, without duplicates."""
    return list({task.key: task for task in tasks}.values())


def check_names(tasks: Sequence[Task]) -> None:
    """Raise ValueError for the first task that names something unknown."""
    seen: set[tuple[str, ...]] = set()
    for task in tasks:
        names = tuple(value for value in asdict(task).values() if isinstance(value, str))
        if names not in seen:
            seen.add(names)
            task.check_names()


def find_method(name: str, n: int) -> type[Strategy]:
    """Return the strategy class called ``name``: a method of lmma, a peer, or ``module:Class``.

    ``"auto"`` is the method that lmma selects for ``n`` variables.
    """
    if name in PEERS:
        return peer_class(name)
    return strategy_class(choose_method(n, values="auto") if name == "auto" else name)
