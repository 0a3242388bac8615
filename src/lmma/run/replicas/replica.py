"""A copy of the strategy on a worker of a cluster: told what the run is told, it makes the same candidates.

What a strategy does is a function of its state and of the values it is told, so a replica needs no candidates
from outside: a message names rows, and carries the events since the last one.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.evaluation import pickling
from lmma.evaluation.base import Array, Values
from lmma.evaluation.cluster.messages import Reply, Status
from lmma.evaluation.cluster.worker_host import HostSetup, WorkerHost
from lmma.evaluation.seeded import with_seed
from lmma.kernels.blas import using_blas_threads
from lmma.run.checkpoint_file import pack, unpack
from lmma.strategies import Strategy
from lmma.strategies.parts.bounds import read_bounds
from lmma.strategies.parts.constraints import ConstraintOptions

BLOCK = 1024  # 64-bit words that a checksum adds up before it mixes
NO_STATE = -1


@dataclass(frozen=True)
class Told:
    """The strategy was told the values of a generation."""

    values: Values
    check: bool = False  # whether to compute a checksum of the state after it
    more: dict[str, Values] = field(default_factory=dict)  # constraints, and values of repeated candidates
    options: ConstraintOptions | None = None  # of the constraints, with the first of them


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
    seed: tuple[int, int] | None = None  # and number of a generation, where fun takes them

    @property
    def position(self) -> Position:
        """Where the run stands."""
        return Position(self.restart, self.base + len(self.events))


@dataclass(frozen=True)
class ReplicaSetup(HostSetup):
    """What the host of a replica must know."""

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


def take_state(strategy: Strategy, position: Position) -> ReplicaState:
    """Return the state of a run to be sent; arrays of zeros, most of a fresh state, are named only.

    It does not depend on whether candidates have been asked for since the last values were told.
    """
    arrays = {name: np.asarray(value) for name, value in strategy.get_state().items()}
    zeros = {name: array for name, array in arrays.items() if array.size > BLOCK and not array.any()}
    header = {"zeros": {name: [array.dtype.str, list(array.shape)] for name, array in zeros.items()}}
    kept = {name: array for name, array in arrays.items() if name not in zeros}
    told = strategy.constraint_options, strategy.noise.treatment
    recipe = pickling.dumps((strategy.n, *strategy.recipe(), *told))
    return ReplicaState(position, recipe, pack(header, kept))


def from_state(state: ReplicaState) -> Strategy:
    """Return the strategy that ``state`` was taken of."""
    n, cls, options, constraint_options, noise = pickle.loads(state.recipe)
    header, arrays = unpack(state.saved)
    for name, (dtype, shape) in header["zeros"].items():
        arrays[name] = np.zeros(shape, dtype=dtype)
    x0 = np.zeros(n)
    if options.get("bounds") is not None:
        x0 = np.clip(x0, *read_bounds(options["bounds"], n))
    strategy: Strategy = cls(x0, 1.0, rng=0, **options)
    strategy.constraint_options = constraint_options
    strategy.handle_noise(noise)
    strategy.set_state(arrays)
    return strategy


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
        self._blas_threads = setup.blas_threads
        self._strategy: Strategy | None = None
        self._candidates: Array | None = None
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
        self._strategy = from_state(state)
        self._candidates = self._strategy.ask()
        self._state, self._position, self._checksum = state.number, state.position, None

    def _catch_up(self, task: ReplicaTask) -> bool:
        """Go through events that are new here; return whether that was possible."""
        here = self._position
        if self._strategy is None or task.restart != here.restart or task.base > here.events:
            return False
        try:
            for event in task.events[here.events - task.base :]:
                self._go_through(self._strategy, event)
        except Exception:  # the run's own strategy fails likewise, and says so
            self._position = Position(NO_STATE, 0)
            return False
        return True

    def _go_through(self, strategy: Strategy, event: Event) -> None:
        """Do what the run's strategy did."""
        self._position = Position(self._position.restart, self._position.events + 1)
        if isinstance(event, Redrawn):
            strategy.resample(event.rows, event.attempt)
            return
        if event.options is not None:
            strategy.constraint_options = event.options
        strategy.tell(event.values, **event.more)
        if event.check:
            self._checksum = (self._position, checksum(strategy))
        same_size = self._candidates is not None and len(self._candidates) == strategy.popsize
        self._candidates = strategy.ask(self._candidates if same_size else None)
