"""A copy of the strategy on a worker of a cluster: told what the run is told, it makes the same candidates.

What a strategy does is a function of its state and of the values it is told, so a replica needs no candidates
from outside: a message names rows, and carries the events since the last one.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.evaluation import pickling
from lmma.evaluation.base import Array, Values
from lmma.evaluation.cluster.messages import Reply, Status
from lmma.evaluation.cluster.worker_host import HostSetup, WorkerHost
from lmma.kernels.blas import using_blas_threads
from lmma.run import checkpoint
from lmma.strategies import Strategy
from lmma.strategies.parts.bounds import Box

BLOCK = 1024  # 64-bit words that a checksum adds up before it mixes
NO_STATE = -1


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
class Position:
    """Where a strategy stands: which restart of the run it is, and how many events it has gone through."""

    restart: int
    events: int


@dataclass(frozen=True)
class ReplicaState:
    """All that a replica needs to begin: a checkpoint, and the position at which it was taken."""

    position: Position
    recipe: bytes  # how to make a strategy of the kind
    saved: bytes  # in the format of checkpoints
    number: int = 0  # in the order in which a run sends states


@dataclass(frozen=True)
class ReplicaTask:
    """Candidates to evaluate, after catching up with events from number ``base`` on."""

    restart: int
    base: int
    events: tuple[Event, ...]
    rows: npt.NDArray[np.intp] | None  # None: only catch up

    @property
    def position(self) -> Position:
        """Where the run stands."""
        return Position(self.restart, self.base + len(self.events))


@dataclass(frozen=True)
class ReplicaSetup(HostSetup):
    """What the host of a replica must know."""

    box: Box | None = None
    blas_threads: int | None = None  # of the run, None if unknown

    def start(self) -> Replica:
        """Return a new host."""
        return Replica(self)


@dataclass(frozen=True)
class ReplicaReply(Reply):
    """A reply that says where the replica stands."""

    state: int = field(kw_only=True)  # number of the state it began from
    position: Position = field(kw_only=True)
    checksum: tuple[Position, str] | None = field(kw_only=True)  # the last, and of which position
    kernels: str = field(kw_only=True)


class BoundedStrategy:
    """A strategy together with its box: candidates are asked for inside it, values told with its penalty."""

    def __init__(self, strategy: Strategy, box: Box | None) -> None:
        self.strategy = strategy
        self.box = box
        self.candidates: Array | None = None

    def ask(self) -> None:
        """Make the candidates of the next generation."""
        self.candidates = self.strategy.ask(self.candidates)
        if self.box is not None:
            self.box.repair(self.candidates)

    def go_through(self, event: Event) -> None:
        """Do what the run's strategy did."""
        if isinstance(event, Redrawn):
            self.strategy.resample(event.rows, event.attempt)  # type: ignore[attr-defined]
            if self.box is not None:
                assert self.candidates is not None
                self.box.repair(self.candidates, event.rows)
        else:
            self.strategy.tell(event.values if self.box is None else self.box.penalised(event.values))

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state of strategy and box as named arrays."""
        arrays = {f"strategy.{name}": np.asarray(value) for name, value in self.strategy.get_state().items()}
        if self.box is not None:
            arrays |= {f"box.{name}": np.asarray(value) for name, value in self.box.get_state().items()}
        return arrays

    def set_state(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take over a state that :meth:`get_state` returned."""
        self.strategy.set_state(_under("strategy.", arrays))
        if self.box is not None:
            self.box.set_state(_under("box.", arrays))


def _under(prefix: str, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def take_state(bounded: BoundedStrategy, injected: list[Array], position: Position) -> ReplicaState:
    """Return the state of a run, as of before its candidates were asked for, to be sent.

    ``injected`` are points that were waiting then. Arrays of zeros, most of a fresh state, are named only.
    """
    strategy, arrays = bounded.strategy, bounded.get_state()
    if injected:
        arrays["injected"] = np.array(injected)
    zeros = {name: array for name, array in arrays.items() if array.size > BLOCK and not array.any()}
    header = {"zeros": {name: [array.dtype.str, list(array.shape)] for name, array in zeros.items()}}
    kept = {name: array for name, array in arrays.items() if name not in zeros}
    options: dict[str, Any] = {
        "popsize": strategy.popsize, "dtype": strategy.dtype.name,
        "tolx": strategy.tolx, "tolfun": strategy.tolfun, **getattr(strategy, "overrides", {}),
    }  # fmt: skip
    recipe = pickling.dumps((type(strategy), strategy.n, options))
    return ReplicaState(position, recipe, checkpoint.pack(header, kept))


def from_state(state: ReplicaState, box: Box | None) -> BoundedStrategy:
    """Return the strategy that ``state`` was taken of."""
    cls, n, options = pickle.loads(state.recipe)
    header, arrays = checkpoint.unpack(state.saved)
    for name, (dtype, shape) in header["zeros"].items():
        arrays[name] = np.zeros(shape, dtype=dtype)
    bounded = BoundedStrategy(cls(np.zeros(n), 1.0, rng=0, **options), box)
    bounded.set_state(arrays)
    if "injected" in arrays:
        bounded.strategy.inject(arrays["injected"])  # type: ignore[attr-defined]
    return bounded


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
class Replica(WorkerHost[ReplicaState | ReplicaTask]):
    """A worker host that makes the candidates it evaluates."""

    def __init__(self, setup: ReplicaSetup) -> None:
        super().__init__(setup)
        self._box = setup.box
        self._blas_threads = setup.blas_threads
        self._bounded: BoundedStrategy | None = None
        self._state = NO_STATE  # number of the one it began from
        self._position = Position(NO_STATE, 0)
        self._checksum: tuple[Position, str] | None = None
        self._state_lock = threading.Lock()

    def handle(self, payload: ReplicaState | ReplicaTask) -> Reply:
        """Begin anew from a state, or catch up and evaluate."""
        with self._state_lock, using_blas_threads(self._blas_threads):
            if isinstance(payload, ReplicaState):
                self._load(payload)
                return self._reply("ready")
            here, there = self._position, payload.position
            if here.restart == there.restart and here.events > there.events:
                return self._reply("stale")
            if not self._catch_up(payload):
                return self._reply("behind")
            reply = self._reply("ready")
            if payload.rows is None:
                return reply
            assert self._bounded is not None
            assert self._bounded.candidates is not None
            x = self._bounded.candidates[payload.rows]
        return ReplicaReply(**(vars(reply) | vars(self.evaluate(x))))

    def _reply(self, status: Status) -> ReplicaReply:
        return ReplicaReply(
            status, state=self._state, position=self._position, checksum=self._checksum, kernels=kernel_name()
        )

    def _load(self, state: ReplicaState) -> None:
        self._bounded = from_state(state, self._box)
        self._state, self._position, self._checksum = state.number, state.position, None
        self._bounded.ask()

    def _catch_up(self, task: ReplicaTask) -> bool:
        """Go through events that are new here; return whether that was possible."""
        if (
            self._bounded is None
            or task.restart != self._position.restart
            or task.base > self._position.events
        ):
            return False
        try:
            for event in task.events[self._position.events - task.base :]:
                self._bounded.go_through(event)
                self._position = Position(task.restart, self._position.events + 1)
                if isinstance(event, Told):
                    if event.check:
                        self._checksum = (self._position, checksum(self._bounded.strategy))
                    self._bounded.ask()
        except (ArithmeticError, ValueError, np.linalg.LinAlgError):
            self._position = Position(NO_STATE, 0)
            return False
        return True


def kernel_name() -> str:
    """Return which kernels are in use here: others may differ in the last bit."""
    return kernels.backend().partition(",")[0]
