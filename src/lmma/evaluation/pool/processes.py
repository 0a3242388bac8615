"""Starting, reading and killing the worker processes of a pool.

Each worker is a new interpreter. A fork could deadlock, because it copies locks held by other threads (BLAS,
a notebook's input). The spawn method of ``multiprocessing`` imports the main script again, which runs a
script without ``if __name__ == "__main__"`` twice. Startup takes a few hundred milliseconds.

A worker imports the standard library, NumPy and lmma from the same places as this process. The current
directory is added to its path afterwards, so that a stray ``json.py`` there is not imported instead.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lmma.evaluation.pool.worker import Report
from lmma.kernels.blas import THREAD_VARIABLES

# Start script of a worker. It loads lmma from its file, because the path may contain another version or none.
BOOTSTRAP = """
import sys, json
from importlib.util import module_from_spec, spec_from_file_location
sys.path[:], file, folder = json.loads(sys.argv.pop())
spec = spec_from_file_location("lmma", file, submodule_search_locations=[folder])
sys.modules["lmma"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["lmma"])
from lmma.evaluation.pool import worker
"""

user_path: list[str] = []  # folders searched first when a worker loads the objective
# Exit statuses of processes killed by a person, a batch system, or the system because memory ran out
KILLED_FROM_OUTSIDE = [  # empty on Windows
    -getattr(signal, name) for name in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT") if os.name == "posix"
]
TASKKILL_TIME = 10.0  # seconds
MEMORY_HINT = "set workers= to a smaller number, or raise the memory limit (ulimit, batch job)"


@dataclass(eq=False)
class WorkerProcess(ABC):
    """The pool's handle of one worker process."""

    slot: int
    process: subprocess.Popen[bytes]
    ready: bool = False  # whether it has loaded the objective
    unread: bytearray = field(default_factory=bytearray)  # reports; the last one may be incomplete

    @abstractmethod
    def receive(self) -> bool:
        """Add available reports to ``unread``; return False if there will be no more."""

    def next_report(self) -> Report | None:
        """Return the next complete report, or None."""
        return Report.read(self.unread)

    def kill(self) -> None:
        """Kill the process and all its descendants."""
        (_kill_session if os.name == "posix" else _kill_tree)(self.process)
        self.process.wait()


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, its descendants, and the rest of its process group."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGSTOP)  # so that it starts no more children meanwhile
        for child in _descendants(process.pid):  # children in other sessions are not in its process group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and the children it has now, with the command that Windows has for this."""
    if process.poll() is None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["taskkill", "/F", "/T", "/PID", str(process.pid)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=TASKKILL_TIME, check=False,
            )  # fmt: skip
        process.kill()


def _descendants(pid: int) -> list[int]:
    """Return all descendants of ``pid``; empty without /proc."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found + [further for child in found for further in _descendants(child)]


def start_interpreter(
    entry: str,
    argument: str,
    threads: int,
    *,
    stdin: int,
    stdout: int | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that calls ``entry`` of ``worker.py``, with BLAS of ``threads`` threads."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"{BOOTSTRAP}worker.{entry}()", argument, _lmma_location()],
        pass_fds=pass_fds,
        stdin=stdin,
        stdout=stdout,
        # Ctrl-C only reaches the pool, which then kills its workers
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        env={**dict.fromkeys(THREAD_VARIABLES, str(threads)), **os.environ},
    )


def exit_reason(status: int | None) -> str:
    """Return the likely reason why a worker exited before it had loaded the objective."""
    if status == -getattr(signal, "SIGKILL", math.inf):
        return (
            f"the last one was killed by the system (SIGKILL), probably because memory ran out: {MEMORY_HINT}"
        )
    try:
        ended = f"the last one was killed by {signal.Signals(-(status or 0)).name}"
    except ValueError:
        ended = f"the last one exited with status {status}"
    if _memory_is_limited():
        return f"{ended}, and a memory limit is set for processes: {MEMORY_HINT}"
    return f"{ended}: check that the modules fun needs can be imported"


def _memory_is_limited() -> bool:
    try:
        import resource
    except ImportError:  # Windows
        return False
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in limits)


def module_path() -> list[str]:
    """Return ``sys.path`` with absolute entries, after the user's folders."""
    path = [*user_path, *map(os.path.abspath, sys.path)]
    return list(dict.fromkeys(path))


def safe_path() -> list[str]:
    """Return :func:`module_path` with the current directory last, where it cannot shadow modules."""
    here = os.getcwd()
    path = module_path()
    return [entry for entry in path if entry != here] + [here] * (here in path)


def _lmma_location() -> str:
    folder = Path(__file__).absolute().parents[2]
    return json.dumps([safe_path(), str(folder / "__init__.py"), str(folder)])
