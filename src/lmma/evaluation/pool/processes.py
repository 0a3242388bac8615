"""The processes of a pool: spawned, listened to, killed.

Each worker is a fresh interpreter, not a fork: a fork copies locks that other threads (BLAS, a notebook's
input) hold and can hang for ever, and what the standard library offers instead imports the caller's main
script again, which runs a script without ``if __name__ == "__main__"`` twice. The price is a few
tenths of a second a worker, paid once and for each one replaced.

A worker imports the standard library, NumPy and lmma from where this process has them, before the current
directory is on its path: a stray ``json.py`` there is nobody's wish to run.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lmma.evaluation.pool.worker import Report, WorkerSetup
from lmma.kernels.blas import THREAD_VARIABLES

# What a worker runs first. This very lmma is loaded by its file, for the path may hold another, or none.
START = """
import sys, json
from importlib.util import module_from_spec, spec_from_file_location
sys.path[:], file, folder = json.loads(sys.argv.pop())
spec = spec_from_file_location("lmma", file, submodule_search_locations=[folder])
sys.modules["lmma"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["lmma"])
from lmma.evaluation.pool.worker import main
main()
"""

first_for_the_user: list[str] = []  # folders that are searched first while a worker loads the objective
FEWER = "is there memory for so many workers? Take fewer, or allow more memory (ulimit, the job's limit)"


@dataclass(eq=False)
class WorkerProcess:
    """One process of a pool, seen from outside."""

    slot: int
    process: subprocess.Popen[bytes]
    reports: int  # descriptor from which its reports are read
    ready: bool = False  # whether it has loaded the objective
    unread: bytearray = field(default_factory=bytearray)  # reports, the last perhaps incomplete

    def receive(self) -> bool:
        """Take in what the worker wrote; return False if it has ended."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.reports, 65536):
                self.unread += chunk
            return False
        return True

    def next_report(self) -> Report | None:
        """Return the next complete report, or None."""
        return Report.read(self.unread)

    def kill(self) -> None:
        """End the process and whatever it has started; nothing of it remains."""
        pid = self.process.pid
        if self.process.poll() is None:
            os.kill(pid, signal.SIGSTOP)  # so that it starts nothing more while we look
            for child in _descendants(pid):  # programs in sessions of their own are in no group we know
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Close the pipe of a process that has ended."""
        if self.reports >= 0:
            os.close(self.reports)
            self.reports = -1


def _descendants(pid: int) -> list[int]:
    """Return the processes that ``pid`` has started, and they in turn; none where there is no /proc."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found + [further for child in found for further in _descendants(child)]


def spawn(make_setup: Callable[[int], WorkerSetup], threads: int) -> WorkerProcess:
    """Return a new worker whose BLAS uses ``threads`` threads.

    ``make_setup`` is given the descriptor it shall write reports to; of all descriptors, the worker inherits
    those that its setup names.
    """
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        setup = make_setup(writing)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", START, setup.to_json(), _where_lmma_is()],
            pass_fds=(setup.tasks, setup.reports, setup.memory, setup.objective),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # the terminal's Ctrl-C reaches the pool alone, which then tidies up
            env={**dict.fromkeys(THREAD_VARIABLES, str(threads)), **os.environ},
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return WorkerProcess(setup.slot, process, reading)


def why_it_ended(status: int | None) -> str:
    """Return in words why a worker ended that had not even loaded its objective."""
    if status == -signal.SIGKILL:
        return f"the system killed the last one (SIGKILL), as it does where memory runs out: {FEWER}"
    try:
        ended = f"the last one ended with {signal.Signals(-(status or 0)).name}"
    except ValueError:
        ended = f"the last one ended with status {status}"
    if _memory_is_limited():
        return f"{ended}, and the memory of a process is limited here: {FEWER}"
    return f"{ended}: does importing what it needs crash?"


def _memory_is_limited() -> bool:
    import resource

    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in limits)


def module_path() -> list[str]:
    """Return this process's search path for modules with no entry that depends on where one stands."""
    path = [*first_for_the_user, *map(os.path.abspath, sys.path)]
    return list(dict.fromkeys(path))


def safe_path() -> list[str]:
    """Return :func:`module_path` with the current directory last, where it hides nothing."""
    here = os.getcwd()
    path = module_path()
    return [entry for entry in path if entry != here] + [here] * (here in path)


def _where_lmma_is() -> str:
    folder = Path(__file__).absolute().parents[2]
    return json.dumps([safe_path(), str(folder / "__init__.py"), str(folder)])
