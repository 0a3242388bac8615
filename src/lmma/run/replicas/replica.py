"""A strategy's twin on a worker of a cluster: it is told what the run is told, and makes the same candidates.

What a strategy does is a function of its state and of the values it is told, so a replica needs no candidates
from outside: a letter names rows, and carries the events since the last one.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.evaluation import pickling
from lmma.evaluation.base import Array, Values
from lmma.evaluation.cluster.worker_host import Agent, Answer, Setup
from lmma.kernels.blas import using_blas_threads
from lmma.run import checkpoint
from lmma.strategies import Strategy
from lmma.strategies.parts.bounds import Box

BLOCK = 1024  # words that a checksum adds up before it mixes


@dataclass(frozen=True)
class Told:
    """The strategy was told the values of a generation."""

    values: Values
    check: bool = False  # whether to compute a checksum of the state after it


@dataclass(frozen=True)
class Redrawn:
    """Candidates were drawn again."""

    rows: npt.NDArray[np.intp]
    attempt: int


Event = Told | Redrawn


@dataclass(frozen=True)
class State:
    """All that a replica needs to begin: a checkpoint, and where in the order of events it was taken."""

    leg: int
    position: int
    recipe: bytes  # how to make a strategy of the kind
    saved: bytes  # in the format of checkpoints


@dataclass(frozen=True)
class Work:
    """Candidates to evaluate, after events from number ``base`` on have been caught up with."""

    leg: int
    base: int
    events: tuple[Event, ...]
    rows: npt.NDArray[np.intp] | None  # None: only catch up

    @property
    def position(self) -> int:
        """How many events have happened."""
        return self.base + len(self.events)


@dataclass(frozen=True)
class News:
    """Where a replica stands, and its last checksum with the position that belongs to."""

    leg: int
    position: int
    checksum: tuple[int, str] | None
    kernels: str
    words: str = ""  # why it could not do what was asked


def take_state(strategy: Strategy, box: Box | None, leg: int, position: int) -> State:
    """Return the state of a run, as of before its candidates were asked for, to be sent.

    Arrays of zeros, most of a fresh state, are named only.
    """
    arrays = {f"strategy.{name}": np.asarray(value) for name, value in strategy.get_state().items()}
    if box is not None:
        arrays |= {f"box.{name}": np.asarray(value) for name, value in box.get_state().items()}
    zeros = {name: array for name, array in arrays.items() if array.size > BLOCK and not array.any()}
    header = {"zeros": {name: [array.dtype.str, list(array.shape)] for name, array in zeros.items()}}
    kept = {name: array for name, array in arrays.items() if name not in zeros}
    options: dict[str, Any] = {
        "popsize": strategy.popsize, "dtype": strategy.dtype.name,
        "tolx": strategy.tolx, "tolfun": strategy.tolfun, **strategy.options,
    }  # fmt: skip
    recipe = pickling.dumps((type(strategy), strategy.n, options))
    return State(leg, position, recipe, checkpoint.pack(header, kept))


def checksum(strategy: Strategy) -> str:
    """Return a short text that differs if any bit of the state does, at the speed memory is read."""
    digest = hashlib.sha256()
    for name, value in sorted(strategy.get_state().items()):
        words = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        whole = len(words) // (8 * BLOCK) * (8 * BLOCK)
        digest.update(name.encode())
        digest.update(words[:whole].view(np.uint64).reshape(-1, BLOCK).sum(axis=1).tobytes())
        digest.update(words[whole:].tobytes())
    return digest.hexdigest()[:16]


@final
class Replica(Agent):
    """An agent that makes the candidates it evaluates."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._box: Box | None = pickle.loads(setup.further["box"])
        self._threads: int | None = setup.further["blas"]
        self._strategy: Strategy | None = None
        self._candidates: Array | None = None
        self._leg = -1
        self._position = -1
        self._checksum: tuple[int, str] | None = None
        self._state = threading.Lock()

    def handle(self, body: State | Work) -> Answer:
        """Begin anew from a state, or catch up and evaluate."""
        with self._state, using_blas_threads(self._threads):
            if isinstance(body, State):
                self._load(body)
                return Answer("hello", news=self._news())
            if body.leg == self._leg and body.position < self._position:
                return Answer("stale", news=self._news("the generation is over"))
            words = self._catch_up(body)
            if words:
                return Answer("behind", news=self._news(words))
            news = self._news()
            if body.rows is None:
                return Answer("hello", news=news)
            assert self._candidates is not None
            x = self._candidates[body.rows]
        return replace(self.evaluate(x), news=news)

    def _news(self, words: str = "") -> News:
        return News(self._leg, self._position, self._checksum, kernel_name(), words)

    def _load(self, state: State) -> None:
        cls, n, options = pickle.loads(state.recipe)
        header, arrays = checkpoint.unpack(state.saved)
        for name, (dtype, shape) in header["zeros"].items():
            arrays[name] = np.zeros(shape, dtype=dtype)
        strategy: Strategy = cls(np.zeros(n), 1.0, rng=0, **options)
        strategy.set_state(_under("strategy.", arrays))
        if self._box is not None:
            self._box.set_state(_under("box.", arrays))
        self._strategy, self._candidates = strategy, None
        self._leg, self._position, self._checksum = state.leg, state.position, None
        self._ask()

    def _ask(self) -> None:
        assert self._strategy is not None
        self._candidates = self._strategy.ask(self._candidates)
        if self._box is not None:
            self._box.repair(self._candidates)

    def _catch_up(self, body: Work) -> str:
        """Go through events that are new here; return why that is not possible, or nothing."""
        if body.leg != self._leg or not body.base <= self._position:
            return f"events from {self._position} on are missing"
        try:
            for event in body.events[self._position - body.base :]:
                self._go_through(event)
                self._position += 1
        except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            self._leg = -1
            return f"{type(error).__name__}: {error}"
        return ""

    def _go_through(self, event: Event) -> None:
        strategy, box = self._strategy, self._box
        assert strategy is not None
        if isinstance(event, Redrawn):
            strategy.resample(event.rows, event.attempt)
            if box is not None:
                assert self._candidates is not None
                box.repair(self._candidates, event.rows)
            return
        strategy.tell(event.values if box is None else box.penalised(event.values))
        if event.check:
            self._checksum = (self._position + 1, checksum(strategy))
        self._ask()


def kernel_name() -> str:
    """Return which kernels are in use here: others may differ in the last bit."""
    return kernels.backend().partition(",")[0]


def _under(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
