"""Worker processes, one task each at a time, that end with the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from lmma.evaluation.pool.processes import module_path, safe_path
from lmma.experiments.schedule.execute import one_thread, perform
from lmma.experiments.schedule.unfinished import UnfinishedRuns
from lmma.experiments.tasks import Task

EVERY = 0.5  # seconds between two messages about progress
Message = tuple[str, Any]  # ("progress", (evaluations, best)), ("done", record) or ("failed", words)


def serve(connection: Connection, path: list[str], unfinished: UnfinishedRuns | None) -> None:
    """Do tasks from ``connection`` until it closes.

    Their modules are searched on ``path``, and runs in progress are kept in ``unfinished``.
    """
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    while True:
        try:
            task: Task | None = connection.recv()
        except (EOFError, OSError):
            return
        if task is None:
            return
        try:
            answer: Message = ("done", perform(task, _Reporter(connection), unfinished))
        except (BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:
            answer = ("failed", f"{type(error).__name__}: {error}")
        try:
            connection.send(answer)
        except OSError:
            return


def _end_with_the_parent() -> None:
    """Leave at once if the parent is killed: nobody would take the record."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Reporter:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._next = time.monotonic() + EVERY

    def __call__(self, evaluations: int, best: float) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY
            self.connection.send(("progress", (evaluations, best)))


class TaskWorker:
    """A process that carries out one task at a time, keeping runs in progress in ``unfinished``."""

    def __init__(self, unfinished: UnfinishedRuns | None = None) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit the threads of BLAS, broken
        self.connection, theirs = context.Pipe()
        arguments = (theirs, module_path(), unfinished)
        self.process: BaseProcess = context.Process(target=serve, args=arguments, daemon=True)
        # A stray json.py in the current directory is nobody's wish to run: its path comes after all imports.
        with _environment(one_thread() | {"PYTHONSAFEPATH": "1"}), _search_path(safe_path()):
            self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.since = 0.0

    def give(self, task: Task) -> None:
        """Send ``task`` to the process."""
        self.task, self.since = task, time.monotonic()
        self.connection.send(task)

    def messages(self) -> Iterator[Message]:
        """Return the messages that have arrived; ("died", words) if it is gone."""
        try:
            while self.connection.poll():
                yield self.connection.recv()
        except (EOFError, OSError):
            self.process.join(5)
            yield "died", _cause(self.process.exitcode)

    def end(self) -> None:
        """End the process now."""
        self.connection.close()
        self.process.terminate()
        self.process.join(5)


def _cause(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        return f"its process was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"its process ended with code {exitcode}"


def ready(workers: Sequence[TaskWorker], timeout: float) -> list[TaskWorker]:
    """Return the workers that have sent a message, after at most ``timeout`` seconds."""
    readable = set(wait([worker.connection for worker in workers], timeout))
    return [worker for worker in workers if worker.connection in readable]


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for a child about to start, and put them back."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _search_path(path: list[str]) -> Iterator[None]:
    """Set the path for modules that a child about to start is told, and put it back."""
    before = sys.path[:]
    sys.path[:] = path
    try:
        yield
    finally:
        sys.path[:] = before
