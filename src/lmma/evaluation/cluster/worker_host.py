"""What runs on a worker of a cluster: the host of one run, which evaluates in processes of its own.

The objective runs neither in the worker's process nor in its threads but in children of it, one for each slot
(``pool.py``): an evaluation that crashes or hangs takes nothing with it and is counted on the spot, and the
worker answers its scheduler whatever the objective does.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, final

import numpy as np

from lmma.evaluation.base import Array, EvaluationOptions
from lmma.evaluation.cluster.messages import Message, Reply
from lmma.evaluation.failures import TaskFailure
from lmma.evaluation.pool.pool import Pool

LEASE = 120.0  # seconds after which a host that hears nothing of its run ends: the run was killed

Payload = TypeVar("Payload")


@dataclass(frozen=True)
class HostSetup:
    """All that a host must know before it can evaluate."""

    objective: bytes  # (fun, args), pickled
    options: EvaluationOptions
    slots: int

    def start(self) -> WorkerHost[Any]:
        """Return a new host."""
        return VectorHost(self)


class Slot:
    """A process that evaluates, and the thread it belongs to.

    The system ends a child with the *thread* that started it, and those of a cluster's worker come and go.
    """

    def __init__(self, setup: HostSetup) -> None:
        self._vectorized = setup.options.vectorized
        # The quorum is one of the whole generation. Other cores have slots or workers of their own.
        self._pool = Pool(setup.objective, replace(setup.options, quorum=1.0), workers=1, threads=1)
        self._requests: queue.SimpleQueue[tuple[Array, Future[Reply]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="lmma evaluates", daemon=True).start()

    def evaluate(self, x: Array) -> Reply:
        """Return what came of the rows ``x``."""
        reply: Future[Reply] = Future()
        self._requests.put((x, reply))
        return reply.result()

    def stop(self) -> None:
        """End the process, also in the middle of an evaluation."""
        self._pool.stopped = True
        self._requests.put(None)

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            x, reply = request
            before, began = self._pool.deaths, time.monotonic()
            try:
                # A death is told at once: kept here, it would be lost if this worker died of the next one
                batch = self._pool.evaluate(x, len(x) if self._vectorized else 1, until_death=True)
                deaths, seconds = self._pool.deaths - before, (time.monotonic() - began) / len(x)
                reply.set_result(Reply(
                    "done", batch.values, batch.failures, deaths, tuple(batch.deaths),
                    tuple(batch.unanswered()), seconds, batch.beside,
                ))  # fmt: skip
            except BaseException as error:
                reply.set_exception(error)
        self._pool.close()


class WorkerHost(ABC, Generic[Payload]):
    """One run's evaluations on one worker."""

    def __init__(self, setup: HostSetup) -> None:
        self._slots = [Slot(setup) for _ in range(setup.slots)]
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        for slot in self._slots:
            self._free.put(slot)
        self._ended = threading.Event()
        self._busy = 0
        self._last_used = time.monotonic()
        self._lock = threading.Lock()
        threading.Thread(target=self._expire, name="lmma waits", daemon=True).start()

    def receive(self, payload: Payload | None) -> Reply:
        """Do what a message asks for."""
        with self._lock:
            self._busy += 1
        try:
            return Reply("ready") if payload is None else self.handle(payload)
        except InterruptedError:  # the run ended, nobody waits for this
            return Reply("unregistered")
        finally:
            with self._lock:
                self._busy -= 1
                self._last_used = time.monotonic()

    @abstractmethod
    def handle(self, payload: Payload) -> Reply:
        """Return what came of a message's payload."""

    def evaluate(self, x: Array) -> Reply:
        """Return what came of the rows ``x``, evaluated in a process that is free."""
        slot = self._free.get()
        try:
            return slot.evaluate(np.atleast_2d(x))
        finally:
            self._free.put(slot)

    def end(self) -> None:
        """End all processes of this host."""
        self._ended.set()
        for slot in self._slots:
            slot.stop()

    def _expire(self) -> None:
        while not self._ended.wait(LEASE / 8):
            with self._lock:
                expired = not self._busy and time.monotonic() - self._last_used > LEASE
            if expired:
                with _hosts_lock:
                    for token in [token for token, host in _hosts.items() if host is self]:
                        del _hosts[token]
                self.end()


@final
class VectorHost(WorkerHost[Array]):
    """Evaluates candidates that are sent to it, one per row."""

    def handle(self, payload: Array) -> Reply:
        """Return what came of the candidates."""
        return self.evaluate(payload)


_hosts: dict[str, WorkerHost[Any]] = {}  # of this process, by token
_hosts_lock = threading.Lock()


def serve(message: bytes) -> bytes:
    """Return the reply to a message; both are pickled, so that a transport has no need to understand them."""
    return pickle.dumps(_reply_to(pickle.loads(message)))


def _reply_to(message: Message) -> Reply:
    try:
        with _hosts_lock:
            host = _hosts.get(message.token)
            if host is None:
                if message.setup is None:
                    return Reply("unregistered")
                host = _hosts[message.token] = message.setup.start()
        return host.receive(message.payload)
    except Exception as error:
        return Reply("broken", failures={0: (TaskFailure.of(error), 0)})


def end_host(token: str) -> None:
    """End the host with that token, if it is here."""
    with contextlib.suppress(KeyError):
        with _hosts_lock:
            host = _hosts.pop(token)
        host.end()
