"""What runs on a worker of a cluster: an agent of one run, which evaluates in processes of its own.

The objective runs neither in the worker's process nor in its threads but in children of it, one for each slot
(``pool.py``): an evaluation that crashes or hangs takes nothing with it and is counted on the spot, and the
worker answers its scheduler whatever the objective does.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lmma.evaluation.base import Array, Values
from lmma.evaluation.pool.batch import Problem
from lmma.evaluation.pool.pool import Pool
from lmma.evaluation.pool.worker import described

LEASE = 120.0  # seconds after which an agent that hears nothing of its run ends: the run was killed


@dataclass(frozen=True)
class Setup:
    """All that an agent must know before it can evaluate."""

    agent: type[Agent]
    objective: bytes  # (fun, args), pickled
    vectorized: bool
    timeout: float | None
    slots: int
    further: dict[str, Any] = field(default_factory=dict)  # for agents that do more


@dataclass(frozen=True)
class Letter:
    """What a run sends to a worker."""

    token: str  # names one agent in one process: a worker that was started anew does not know it
    body: Any = None  # candidates, one a row; None only asks for a sign of life
    setup: Setup | None = None


@dataclass(frozen=True)
class Answer:
    """What an agent sends back."""

    what: str  # "done", "hello", "unknown" (no such agent here), "broken" (it cannot evaluate at all)
    values: Values | None = None
    problems: dict[int, Problem] = field(default_factory=dict)  # by row: why it has no value
    deaths: int = 0  # of processes, under this evaluation
    seconds: float = 0.0  # a row
    news: Any = None  # of agents that do more


class Slot:
    """A process that evaluates, and the thread it belongs to.

    The system ends a child with the *thread* that started it, and those of a cluster's worker come and go.
    """

    def __init__(self, setup: Setup) -> None:
        self.pool = Pool(setup.objective, workers=1, vectorized=setup.vectorized, timeout=setup.timeout)
        self.together = setup.vectorized
        self.pool.crowd = os.cpu_count() or 1  # other slots, other workers: one thread each
        self._orders: queue.SimpleQueue[tuple[Array, Future[Answer]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="lmma evaluates", daemon=True).start()

    def evaluate(self, x: Array) -> Answer:
        """Return what came of the rows ``x``."""
        answer: Future[Answer] = Future()
        self._orders.put((x, answer))
        return answer.result()

    def stop(self) -> None:
        """End the process, also in the middle of an evaluation."""
        self.pool.stopped = True
        self._orders.put(None)

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            x, answer = order
            before, began = self.pool.deaths, time.monotonic()
            try:
                done = self.pool.work(x, len(x) if self.together else 1)
                deaths, seconds = self.pool.deaths - before, (time.monotonic() - began) / len(x)
                answer.set_result(Answer("done", done.values, done.problems, deaths, seconds))
            except BaseException as error:
                answer.set_exception(error)
        self.pool.close()


class Agent:
    """One run's evaluations on one worker."""

    def __init__(self, setup: Setup) -> None:
        self._slots = [Slot(setup) for _ in range(setup.slots)]
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        for slot in self._slots:
            self._free.put(slot)
        self._ended = threading.Event()
        self._busy = 0
        self._heard = time.monotonic()
        self._lock = threading.Lock()
        threading.Thread(target=self._expire, name="lmma waits", daemon=True).start()

    def receive(self, body: Any) -> Answer:
        """Do what a letter asks for."""
        with self._lock:
            self._busy += 1
        try:
            return Answer("hello") if body is None else self.handle(body)
        except InterruptedError:  # the run ended, nobody waits for this
            return Answer("unknown")
        finally:
            with self._lock:
                self._busy -= 1
                self._heard = time.monotonic()

    def handle(self, body: Any) -> Answer:
        """Return what came of the candidates in a letter."""
        return self.evaluate(body)

    def evaluate(self, x: Array) -> Answer:
        """Return what came of the rows ``x``, evaluated in a process that is free."""
        slot = self._free.get()
        try:
            return slot.evaluate(np.atleast_2d(x))
        finally:
            self._free.put(slot)

    def end(self) -> None:
        """End all processes of this agent."""
        self._ended.set()
        for slot in self._slots:
            slot.stop()

    def _expire(self) -> None:
        while not self._ended.wait(LEASE / 8):
            with self._lock:
                forgotten = not self._busy and time.monotonic() - self._heard > LEASE
            if forgotten:
                with _door:
                    for token in [token for token, agent in _agents.items() if agent is self]:
                        del _agents[token]
                self.end()


_agents: dict[str, Agent] = {}  # of this process, by token
_door = threading.Lock()


def serve(letter: bytes) -> bytes:
    """Answer one letter; both come pickled, so that whatever carries them has no need to understand them."""
    return pickle.dumps(_served(pickle.loads(letter)))


def _served(letter: Letter) -> Answer:
    try:
        with _door:
            agent = _agents.get(letter.token)
            if agent is None:
                if letter.setup is None:
                    return Answer("unknown")
                agent = _agents[letter.token] = letter.setup.agent(letter.setup)
        return agent.receive(letter.body)
    except Exception as error:
        kind, message, trace, _ = pickle.loads(described(error))
        return Answer("broken", problems={0: (kind, message, trace, b"", 0)})


def forget(token: str) -> None:
    """End the agent of that name, if it is here."""
    with contextlib.suppress(KeyError):
        with _door:
            agent = _agents.pop(token)
        agent.end()
