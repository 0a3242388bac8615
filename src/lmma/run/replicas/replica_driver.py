"""The run's side of replicas: workers are named candidates, and told what the strategy goes through."""

from __future__ import annotations

from dataclasses import replace
from typing import final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.evaluation.base import Array, EvaluationOptions, Values
from lmma.evaluation.cluster.driver import ClusterDriver, ClusterWorker, Request
from lmma.evaluation.cluster.messages import Reply
from lmma.evaluation.cluster.transport import ClusterError, Transport
from lmma.kernels.blas import blas_threads
from lmma.run.replicas.replica import (
    Event,
    Position,
    Redrawn,
    ReplicaReply,
    ReplicaSetup,
    ReplicaState,
    ReplicaTask,
    Told,
    checksum,
    take_state,
)
from lmma.strategies import Strategy

KEPT = 64  # events kept: a worker that lags further behind gets the state again
USELESS_STATES = 3  # states in a row that a worker could do nothing with


@final
class ReplicatedDriver(ClusterDriver):
    """Names candidates to workers of a cluster that make them themselves.

    Parameters
    ----------
    objective, options, transport
        As for every driver.
    check : int
        Generations between two comparisons of checksums.
    """

    makes_candidates = True

    def __init__(
        self, objective: bytes, options: EvaluationOptions, transport: Transport, *, check: int = 50
    ) -> None:
        super().__init__(objective, options, transport)
        self.check = check
        self.resent = 0  # how often a replica's state proved useless and was sent again
        self._strategy: Strategy | None = None
        self._restart = -1  # how often the strategy has been another one
        self._events: list[Event] = []  # of this restart, the last few
        self._base = 0  # number of the first of them
        self._settled = 0  # number of events after which the strategy was last told
        self._generations = 0  # of this restart
        self._checksum: tuple[Position, str] | None = None
        self._state: ReplicaState | None = None  # of this generation, if a worker needed it
        self._rows: npt.NDArray[np.intp] = np.arange(0)  # what is evaluated next, as rows of the population
        self._seed: tuple[int, int] | None = None  # of common random numbers, where fun takes them
        self._known: dict[str, int] = {}  # token -> events of this restart that its replica has gone through
        self._states_sent = 0
        self._last_state: dict[str, int] = {}  # token -> number of the state last sent to it
        self._loading: set[str] = set()  # tokens of workers that have not replied to it yet
        self._useless_states: dict[str, int] = {}  # token -> states in a row without an evaluation

    # What the strategy goes through

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return the same array for every generation: nobody else is shown it."""
        return self._reused_buffer(rows, n, dtype)

    def attend(self, strategy: Strategy) -> None:
        """Take note of who is asked; with a strategy not seen before all replicas begin anew."""
        if strategy is not self._strategy:
            self._strategy = strategy
            self._restart += 1
            self._events.clear()
            self._known.clear()
            self._base = self._settled = self._generations = 0
            self._checksum = None
        self._state = None
        self._rows = np.arange(strategy.popsize)
        if self._events and isinstance(self._events[-1], Told) and self._events[-1].check:
            self._checksum = (Position(self._restart, self._settled), checksum(strategy))

    def redrawn(self, rows: npt.NDArray[np.intp], attempt: int) -> None:
        """Take note of candidates drawn again."""
        self._rows = rows
        self._events.append(Redrawn(rows, attempt))

    def repeated(self, rows: npt.NDArray[np.intp]) -> None:
        """Take note of candidates that are evaluated once more."""
        self._rows = rows

    def with_seed(self, candidates: Array, seed: int, generation: int) -> Array:
        """Take note of what workers put behind the candidates they make."""
        self._seed = (seed, generation)
        return candidates

    def told(self, values: Values, *, constraints: Values | None = None, again: Values | None = None) -> None:
        """Pass the values on at once, so that replicas learn while the run does."""
        self._generations += 1
        strategy, given = self._strategy, {"constraints": constraints, "again": again}
        more = {name: numbers for name, numbers in given.items() if numbers is not None}
        first = constraints is not None and strategy is not None and strategy.constraints is None
        options = strategy.constraint_options if first and strategy is not None else None
        self._events.append(Told(values.copy(), self._generations % self.check == 0, more, options))
        self._settled = self._base + len(self._events)
        excess = max(0, len(self._events) - KEPT)
        del self._events[:excess]
        self._base += excess
        for worker in list(self._workers.values()):
            if worker.ready and not worker.busy and self._is_near(worker):
                self._send(Request(worker), self._task(worker, None))

    # Messages

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        if self._workers:
            self._receive(None, 0.0)  # who has caught up already
        return super().__call__(candidates)

    def _task(self, worker: ClusterWorker, rows: npt.NDArray[np.intp] | None) -> ReplicaTask:
        since = self._known[worker.token]
        events = tuple(self._events[since - self._base :])
        return ReplicaTask(self._restart, since, events, rows, self._seed)

    def _payload(self, worker: ClusterWorker, candidates: Array, rows: slice) -> ReplicaTask:
        return self._task(worker, self._rows[rows])

    def _is_near(self, worker: ClusterWorker) -> bool:
        """Return whether events that are kept bring the replica of ``worker`` to where the run is."""
        return self._known.get(worker.token, -1) >= self._base

    def _can_take_tasks(self, worker: ClusterWorker) -> bool:
        """Send the state to a worker that has none, or too old a one; it gets tasks when it has replied."""
        if self._is_near(worker):
            return True
        if worker.token in self._loading:
            return False
        useless = self._useless_states.get(worker.token, 0)
        if useless >= USELESS_STATES:
            raise ClusterError(f"worker {worker.name} cannot follow the run, though it was sent the state")
        worker.ready = False
        self._useless_states[worker.token] = useless + 1
        self._send(Request(worker), self._first_payload(worker))
        return False

    def _first_payload(self, worker: ClusterWorker) -> ReplicaState:
        if self._strategy is None:
            raise ClusterError("Replicated needs lmma.minimize, which lets workers follow its strategy")
        if self._state is None:  # the same for all that join in this generation
            position = Position(self._restart, self._settled)
            self._state = take_state(self._strategy, position)
        self._states_sent += 1
        self._last_state[worker.token] = self._states_sent
        self._loading.add(worker.token)
        return replace(self._state, number=self._states_sent)

    def _setup(self, worker: ClusterWorker) -> ReplicaSetup:
        return ReplicaSetup(self._objective, self.options, worker.slots, blas_threads())

    def _accept(self, worker: ClusterWorker, reply: Reply) -> bool:
        """Take in where a replica stands; use its values only if it stands where it should."""
        if not isinstance(reply, ReplicaReply):
            return True
        if reply.state != self._last_state[worker.token]:
            return False  # to a request from before the state was sent again
        self._loading.discard(worker.token)
        if reply.status == "behind":
            self._forget_state(worker)
            return False
        if reply.status == "stale" or reply.position.restart != self._restart:
            return False
        if self._has_diverged(reply):
            self._warn(worker, reply)
            self._forget_state(worker)
            return False
        self._known[worker.token] = max(reply.position.events, self._known.get(worker.token, -1))
        if reply.status == "done":
            self._useless_states.pop(worker.token, None)
        return True

    def _has_diverged(self, reply: ReplicaReply) -> bool:
        """Return whether checksums of the same position differ."""
        mine, its = self._checksum, reply.checksum
        return mine is not None and its is not None and its[0] == mine[0] and its != mine

    def _forget_state(self, worker: ClusterWorker) -> None:
        """Have the state sent to a replica that has a useless one."""
        self.resent += self._known.pop(worker.token, None) is not None

    def _warn(self, worker: ClusterWorker, reply: ReplicaReply) -> None:
        if not self.warnings:
            here = kernels.name()
            why = (
                f"it has {reply.kernels} kernels, this machine {here}: use machines of one kind, or vectors"
                if reply.kernels != here
                else "its memory or its BLAS differs from this machine's"
            )
            self.warnings.append(f"the replica on {worker.name} diverged and was sent the state again; {why}")
