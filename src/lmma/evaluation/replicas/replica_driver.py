"""Driver of replicas: sends workers the events of the strategy and the rows to evaluate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.evaluation.base import Array, EvaluationOptions, RandomNumbers, Values
from lmma.evaluation.cluster.driver import ClusterDriver, ClusterWorker, Request
from lmma.evaluation.cluster.messages import ClusterError, Reply, Transport
from lmma.evaluation.replicas.replica import (
    Event,
    Position,
    ReplicaReply,
    ReplicaSetup,
    ReplicaState,
    ReplicaTask,
    ResampleEvent,
    TellEvent,
    checksum,
    take_state,
)
from lmma.kernels.blas import blas_threads

MAX_EVENTS = 64  # events kept; a worker that lags further behind is sent the state again
MAX_USELESS_STATES = 3  # consecutive states without an evaluation before a worker is reported


@final
class EventLog:
    """Records the most recent events of the strategy in the current restart.

    Parameters
    ----------
    check : int
        Generations between checksums.
    announce : callable
        Called in :meth:`on_tell`, so that replicas update at the same time as the run.
    """

    def __init__(self, check: int, announce: Callable[[], None]) -> None:
        self.check, self.announce = check, announce
        self.strategy: Any = None
        self.restart = -1  # number of times the strategy has been replaced
        self.base = 0  # number of the first event kept
        self.rows: npt.NDArray[np.intp] = np.arange(0)  # rows of the population to evaluate next
        self.checksum: tuple[Position, str] | None = None
        self._events: list[Event] = []  # the last MAX_EVENTS of this restart
        self._at_tell = 0  # number of events up to the last tell()
        self._generations = 0  # of this restart
        self._state: ReplicaState | None = None  # of this generation, if a worker has needed it

    def on_ask(self, strategy: Any) -> None:
        """Start a new log if ``strategy`` has been replaced; compute a checksum if one is due."""
        if strategy is not self.strategy:
            self.strategy = strategy
            self.restart += 1
            self._events.clear()
            self.base = self._at_tell = self._generations = 0
            self.checksum = None
        self._state = None
        self.rows = np.arange(strategy.batch_size)
        if self._events and isinstance(self._events[-1], TellEvent) and self._events[-1].check:
            self.checksum = (Position(self.restart, self._at_tell), checksum(strategy))

    def on_resample(self, rows: npt.NDArray[np.intp], attempt: int) -> None:
        """Record resampled candidates."""
        self.rows = rows
        self._events.append(ResampleEvent(rows, attempt))

    def on_repeat(self, rows: npt.NDArray[np.intp]) -> None:
        """Record the rows that are evaluated again."""
        self.rows = rows

    def on_tell(self, values: Values, more: Mapping[str, Values]) -> None:
        """Record the values and send them to idle workers."""
        assert self.strategy is not None
        self._generations += 1
        first = "constraints" in more and self.strategy.constraints is None
        options = self.strategy.constraint_options if first else None
        check = self._generations % self.check == 0
        self._events.append(TellEvent(values.copy(), check, dict(more), options))
        self._at_tell = self.base + len(self._events)
        excess = max(0, len(self._events) - MAX_EVENTS)
        del self._events[:excess]
        self.base += excess
        self.announce()

    def since(self, number: int) -> tuple[Event, ...]:
        """Return the events from ``number`` (at least ``base``)."""
        return tuple(self._events[number - self.base :])

    def state(self) -> ReplicaState:
        """Return the state for new replicas, computed at most once per generation."""
        if self.strategy is None:
            raise ClusterError("Replicated workers can only be used with lmma.minimize")
        if self._state is None:
            self._state = take_state(self.strategy, Position(self.restart, self._at_tell))
        return self._state


@final
class ReplicatedDriver(ClusterDriver):
    """Evaluates on workers that generate the candidates themselves.

    Parameters
    ----------
    objective, options, transport
        As for every driver.
    check : int
        Generations between checksum comparisons.
    """

    def __init__(
        self, objective: bytes, options: EvaluationOptions, transport: Transport, *, check: int = 50
    ) -> None:
        super().__init__(objective, options, transport)
        self.resent = 0  # states sent again because a replica was behind or had diverged
        self.strategy_observer = self._log = EventLog(check, self._announce)
        self._seed: RandomNumbers | None = None  # for common random numbers, if fun accepts them
        self._positions: dict[str, Position] = {}  # token -> position of its replica
        self._states_sent = 0
        self._last_state: dict[str, int] = {}  # token -> number of the last state sent
        self._loading: set[str] = set()  # tokens of workers that have not confirmed it yet
        self._useless_states: dict[str, int] = {}  # token -> consecutive states without an evaluation

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return the same array for every generation, because it is not sent."""
        return self._reused_buffer(rows, n, dtype)

    def __call__(self, candidates: Array, seed: RandomNumbers | None = None) -> Values:
        """Return one value per row; workers append ``seed`` to the candidates themselves."""
        self._seed = seed
        if self._workers:
            self._receive(None, 0.0)  # replies to announcements
        return super().__call__(candidates)

    # Messages

    def _announce(self) -> None:
        """Send new events to idle workers."""
        for worker in list(self._workers.values()):
            if worker.ready and not worker.busy and self._can_catch_up(worker):
                self._send(Request(worker), self._task(worker, None))

    def _task(self, worker: ClusterWorker, rows: npt.NDArray[np.intp] | None) -> ReplicaTask:
        since = self._positions[worker.token].events
        return ReplicaTask(self._log.restart, since, self._log.since(since), rows, self._seed)

    def _payload(self, worker: ClusterWorker, candidates: Array, rows: slice) -> ReplicaTask:
        return self._task(worker, self._log.rows[rows])

    def _can_catch_up(self, worker: ClusterWorker) -> bool:
        """Return whether the events kept are enough to update the replica of ``worker``."""
        known = self._positions.get(worker.token)
        return known is not None and known.restart == self._log.restart and known.events >= self._log.base

    def _can_take_tasks(self, worker: ClusterWorker) -> bool:
        """Return whether the replica can catch up; if not, send it the state."""
        if self._can_catch_up(worker):
            return True
        if worker.token in self._loading:
            return False
        useless = self._useless_states.get(worker.token, 0)
        if useless >= MAX_USELESS_STATES:
            raise ClusterError(
                f"worker {worker.name} cannot evaluate, although the state was sent again {useless} "
                "times: pass the cluster without Replicated"
            )
        worker.ready = False
        self._useless_states[worker.token] = useless + 1
        self._send(Request(worker), self._first_payload(worker))
        return False

    def _first_payload(self, worker: ClusterWorker) -> ReplicaState:
        state = self._log.state()
        self._states_sent += 1
        self._last_state[worker.token] = self._states_sent
        self._loading.add(worker.token)
        return replace(state, number=self._states_sent)

    def _setup(self, worker: ClusterWorker) -> ReplicaSetup:
        return ReplicaSetup(self._objective, self.options, worker.slots, blas_threads())

    def _accept(self, worker: ClusterWorker, reply: Reply) -> bool:
        """Record the position of a replica; return whether its values are valid."""
        if not isinstance(reply, ReplicaReply):
            return True
        if reply.state != self._last_state[worker.token]:
            return False  # reply to a request sent before the latest state
        self._loading.discard(worker.token)
        if reply.status == "behind":
            self._forget_state(worker)
            return False
        if reply.status == "stale" or reply.position.restart != self._log.restart:
            return False
        if self._has_diverged(reply):
            self._warn(worker, reply)
            self._forget_state(worker)
            return False
        known = self._positions.get(worker.token)
        if known is None or known.restart != self._log.restart or known.events < reply.position.events:
            self._positions[worker.token] = reply.position
        if reply.status == "done":
            self._useless_states.pop(worker.token, None)
        return True

    def _has_diverged(self, reply: ReplicaReply) -> bool:
        """Return whether the checksums at the same position differ."""
        mine, its = self._log.checksum, reply.checksum
        return mine is not None and its is not None and its[0] == mine[0] and its != mine

    def _forget_state(self, worker: ClusterWorker) -> None:
        """Discard the position of a replica, so that it is sent the state again."""
        known = self._positions.pop(worker.token, None)
        self.resent += known is not None and known.restart == self._log.restart

    def _warn(self, worker: ClusterWorker, reply: ReplicaReply) -> None:
        if not self.warnings:
            here = kernels.name()
            why = (
                f"it uses {reply.kernels} kernels, this machine {here}: use identical machines, or pass "
                "the cluster without Replicated"
                if reply.kernels != here
                else "its memory or its BLAS differs from this machine's"
            )
            self.warnings.append(f"the replica on {worker.name} diverged and was reset: {why}")
