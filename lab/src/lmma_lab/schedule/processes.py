"""Worker processes that run one task at a time and exit with their parent."""

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
from lmma_lab.schedule.execute import one_thread, perform
from lmma_lab.schedule.partial_runs import PartialRuns
from lmma_lab.tasks import Task

EVERY = 0.5  # seconds between progress messages
Message = tuple[str, Any]  # ("progress", (evaluations, best)), ("done", record) or ("failed", text)


def serve(connection: Connection, path: list[str], partial_runs: PartialRuns | None) -> None:
    """Run tasks from ``connection`` until it closes.

    Modules are imported from ``path``; runs in progress are saved in ``partial_runs``.
    """
    sys.path[:] = path
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole process group; the parent handles it
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    while True:
        try:
            task: Task | None = connection.recv()
        except (EOFError, OSError):
            return
        if task is None:
            return
        try:
            answer: Message = ("done", perform(task, _Reporter(connection), partial_runs))
        except (BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:
            answer = ("failed", f"{type(error).__name__}: {error}")
        try:
            connection.send(answer)
        except OSError:
            return


def _exit_with_parent() -> None:
    """Exit immediately if the parent is killed, because the record could not be stored."""
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
    """A process that runs one task at a time and saves runs in progress in ``partial_runs``."""

    def __init__(self, partial_runs: PartialRuns | None = None) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit BLAS threads in a broken state
        self.connection, theirs = context.Pipe()
        arguments = (theirs, module_path(), partial_runs)
        self.process: BaseProcess = context.Process(target=serve, args=arguments, daemon=True)
        # A stray json.py in the current directory must not be imported: its path is added after the imports.
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
        """Yield the received messages; ("died", reason) if the process has ended."""
        try:
            while self.connection.poll():
                yield self.connection.recv()
        except (EOFError, OSError):
            self.process.join(5)
            yield "died", _cause(self.process.exitcode)

    def end(self) -> None:
        """Terminate the process."""
        self.connection.close()
        self.process.terminate()
        self.process.join(5)


def _cause(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        return f"its process was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"its process exited with code {exitcode}"


def ready(workers: Sequence[TaskWorker], timeout: float) -> list[TaskWorker]:
    """Wait at most ``timeout`` seconds; return the workers that have sent a message."""
    readable = set(wait([worker.connection for worker in workers], timeout))
    return [worker for worker in workers if worker.connection in readable]


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables while a child process starts, then restore them."""
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
    """Set the module path that a child process inherits while it starts, then restore it."""
    before = sys.path[:]
    sys.path[:] = path
    try:
        yield
    finally:
        sys.path[:] = before
