"""The host of one run on a cluster worker, which evaluates in child processes.

Each slot of the worker has one child process (``pool.py``) that runs the objective. An evaluation that
crashes or hangs only affects its child and is counted here, and the worker keeps responding to its scheduler.
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

LEASE = 120.0  # seconds without a message after which a host shuts down: the run was killed

Payload = TypeVar("Payload")


@dataclass(frozen=True)
class HostSetup:
    """The objective and options that a host is created with."""

    objective: bytes  # (fun, args), pickled
    options: EvaluationOptions
    slots: int

    def start(self) -> WorkerHost[Any]:
        """Return a new host."""
        return VectorHost(self)


class Slot:
    """An evaluating process and the thread that owns it.

    Linux kills the child when the *thread* that started it exits, and the threads of a cluster worker are
    short-lived.
    """

    def __init__(self, setup: HostSetup) -> None:
        self._vectorized = setup.options.vectorized
        # The quorum applies to the whole generation. Other cores belong to other slots or workers.
        self._pool = Pool(setup.objective, replace(setup.options, quorum=1.0), workers=1, threads=1)
        self._requests: queue.SimpleQueue[tuple[Array, Future[Reply]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="lmma evaluates", daemon=True).start()

    def evaluate(self, x: Array) -> Reply:
        """Evaluate the rows ``x`` and return the reply."""
        reply: Future[Reply] = Future()
        self._requests.put((x, reply))
        return reply.result()

    def stop(self) -> None:
        """Stop the process, even during an evaluation."""
        self._pool.stopped = True
        self._requests.put(None)

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            x, reply = request
            before, began = self._pool.record.deaths, time.monotonic()
            try:
                # Report a death immediately: it would be lost if this worker died next
                batch = self._pool.evaluate(x, len(x) if self._vectorized else 1, until_death=True)
                deaths, seconds = self._pool.record.deaths - before, (time.monotonic() - began) / len(x)
                reply.set_result(Reply(
                    "done", batch.values, batch.failures, deaths, tuple(batch.deaths),
                    tuple(batch.unanswered()), seconds, batch.constraint_values,
                ))  # fmt: skip
            except BaseException as error:
                reply.set_exception(error)
        self._pool.close()


class WorkerHost(ABC, Generic[Payload]):
    """The evaluations of one run on one worker: its slots, and a thread that ends an unused host."""

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
        """Process a message and return the reply."""
        with self._lock:
            self._busy += 1
        try:
            return Reply("ready") if payload is None else self.handle(payload)
        except InterruptedError:  # the run has ended, and the reply is not needed
            return Reply("unregistered")
        finally:
            with self._lock:
                self._busy -= 1
                self._last_used = time.monotonic()

    @abstractmethod
    def handle(self, payload: Payload) -> Reply:
        """Process the payload of a message and return the reply."""

    def evaluate(self, x: Array) -> Reply:
        """Evaluate the rows ``x`` in a free slot and return the reply."""
        slot = self._free.get()
        try:
            return slot.evaluate(np.atleast_2d(x))
        finally:
            self._free.put(slot)

    def end(self) -> None:
        """Stop all processes of this host."""
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
    """Evaluates the candidates in a message, one per row."""

    def handle(self, payload: Array) -> Reply:
        """Evaluate the candidates and return the reply."""
        return self.evaluate(payload)


_hosts: dict[str, WorkerHost[Any]] = {}  # of this process, by token
_hosts_lock = threading.Lock()


def serve(message: bytes) -> bytes:
    """Return the pickled reply to a pickled message; transports only carry bytes."""
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
    """Shut down the host with that token, if it runs in this process."""
    with contextlib.suppress(KeyError):
        with _hosts_lock:
            host = _hosts.pop(token)
        host.end()
