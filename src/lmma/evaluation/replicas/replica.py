"""A replica of the strategy on a cluster worker, which generates the same candidates as the run.

A strategy is determined by its state and the values it receives, so a message contains no candidates: only
the rows to evaluate and the events since the last message.
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
from lmma._archive import pack, unpack
from lmma.evaluation.base import Array, Values
from lmma.evaluation.cluster.messages import Reply, Status
from lmma.evaluation.cluster.worker_host import HostSetup, WorkerHost
from lmma.evaluation.objective import dumps, with_seed
from lmma.kernels.blas import using_blas_threads

BLOCK = 1024  # 64-bit words summed per hash input
NO_STATE = -1


@dataclass(frozen=True)
class TellEvent:
    """The strategy received the values of one generation."""

    values: Values
    check: bool = False  # whether to compute a checksum of the state after it
    more: dict[str, Values] = field(default_factory=dict)  # keyword arguments of tell()
    options: Any = None  # constraint options, in the first event with constraints


@dataclass(frozen=True)
class ResampleEvent:
    """Candidates were resampled."""

    rows: npt.NDArray[np.intp]
    attempt: int


Event = TellEvent | ResampleEvent


@dataclass(frozen=True)
class Position:
    """The progress of a strategy: restart number and number of events processed."""

    restart: int
    events: int


@dataclass(frozen=True)
class ReplicaState:
    """The initial state of a replica: a checkpoint and its position."""

    position: Position
    recipe: bytes  # pickled class and options of the strategy
    saved: bytes  # in the format of checkpoints
    number: int = 0  # in order of sending


@dataclass(frozen=True)
class ReplicaTask:
    """Candidates to evaluate, after processing the events from number ``base``."""

    restart: int
    base: int
    events: tuple[Event, ...]
    rows: npt.NDArray[np.intp] | None  # None: only process the events
    seed: tuple[int, int] | None = None  # seed and generation, if fun accepts them

    @property
    def position(self) -> Position:
        """Position of the run."""
        return Position(self.restart, self.base + len(self.events))


@dataclass(frozen=True)
class ReplicaSetup(HostSetup):
    """The setup of a worker host that runs its own copy of the strategy."""

    blas_threads: int | None = None  # of the run; None if unknown

    def start(self) -> Replica:
        """Return a new host."""
        return Replica(self)


@dataclass(frozen=True)
class ReplicaReply(Reply):
    """A reply with the position of the replica."""

    state: int = field(kw_only=True)  # number of the state it was loaded from
    position: Position = field(kw_only=True)
    checksum: tuple[Position, str] | None = field(kw_only=True)  # the latest, with its position
    kernels: str = field(kw_only=True)


def take_state(strategy: Any, position: Position) -> ReplicaState:
    """Return the state of ``strategy``, with large zero arrays stored as shapes only.

    It does not depend on whether ask() has been called since the last tell().
    """
    arrays = {name: np.asarray(value) for name, value in strategy.get_state().items()}
    zeros = {name: array for name, array in arrays.items() if array.size > BLOCK and not array.any()}
    header = {"zeros": {name: [array.dtype.str, list(array.shape)] for name, array in zeros.items()}}
    kept = {name: array for name, array in arrays.items() if name not in zeros}
    options = strategy.constraint_options, strategy.noise.treatment
    recipe = dumps((*strategy.recipe(), *options))
    return ReplicaState(position, recipe, pack(header, kept))


def restore_strategy(state: ReplicaState) -> Any:
    """Return the strategy restored from ``state``."""
    cls, options, constraint_options, noise = pickle.loads(state.recipe)
    header, arrays = unpack(state.saved)
    for name, (dtype, shape) in header["zeros"].items():
        arrays[name] = np.zeros(shape, dtype=dtype)
    strategy = cls(arrays["record.best_x"], 1.0, rng=0, **options)  # set_state() replaces x0 and sigma0
    strategy.constraint_options = constraint_options
    strategy.handle_noise(noise)
    strategy.set_state(arrays)
    return strategy


def checksum(strategy: Any) -> str:
    """Return a short checksum of the full state; computing it takes about one pass over memory."""
    digest = hashlib.sha256()
    for name, value in sorted(strategy.get_state().items()):
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        full = len(data) // (8 * BLOCK) * (8 * BLOCK)
        digest.update(name.encode())
        digest.update(data[:full].view(np.uint64).reshape(-1, BLOCK).sum(axis=1).tobytes())
        digest.update(data[full:].tobytes())
    return digest.hexdigest()[:16]


@final
class Replica(WorkerHost[ReplicaState | ReplicaTask]):
    """A worker host that generates the candidates it evaluates."""

    def __init__(self, setup: ReplicaSetup) -> None:
        super().__init__(setup)
        self._blas_threads = setup.blas_threads
        self._strategy: Any = None
        self._candidates: Array | None = None
        self._state = NO_STATE  # number of the state it was loaded from
        self._position = Position(NO_STATE, 0)
        self._checksum: tuple[Position, str] | None = None
        self._state_lock = threading.Lock()

    def handle(self, payload: ReplicaState | ReplicaTask) -> Reply:
        """Load a state, or process events and evaluate candidates."""
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
            assert self._candidates is not None
            x = self._candidates[payload.rows]
            if payload.seed is not None:
                x = with_seed(x, *payload.seed)
        return ReplicaReply(**(vars(reply) | vars(self.evaluate(x))))

    def _reply(self, status: Status) -> ReplicaReply:
        return ReplicaReply(
            status,
            state=self._state,
            position=self._position,
            checksum=self._checksum,
            kernels=kernels.name(),
        )

    def _load(self, state: ReplicaState) -> None:
        self._strategy = restore_strategy(state)
        self._candidates = self._strategy.ask()
        self._state, self._position, self._checksum = state.number, state.position, None

    def _catch_up(self, task: ReplicaTask) -> bool:
        """Apply events that are new to this replica; return False if some are missing."""
        here = self._position
        if self._strategy is None or task.restart != here.restart or task.base > here.events:
            return False
        try:
            for event in task.events[here.events - task.base :]:
                self._apply_event(self._strategy, event)
        except Exception:  # the strategy of the run raises the same error and reports it
            self._position = Position(NO_STATE, 0)
            return False
        return True

    def _apply_event(self, strategy: Any, event: Event) -> None:
        """Apply one event of the run's strategy."""
        self._position = Position(self._position.restart, self._position.events + 1)
        if isinstance(event, ResampleEvent):
            strategy.resample(event.rows, event.attempt)
            return
        if event.options is not None:
            strategy.constraint_options = event.options
        strategy.tell(event.values, **event.more)
        if event.check:
            self._checksum = (self._position, checksum(strategy))
        same_size = self._candidates is not None and len(self._candidates) == strategy.batch_size
        self._candidates = strategy.ask(self._candidates if same_size else None)
