"""The processes of a pool: spawned, listened to, killed.

Each worker is a fresh interpreter, not a fork: a fork copies locks that other threads (BLAS, a notebook's
input) hold and can hang for ever, and what the standard library offers instead imports the caller's main
script again, which runs a script without ``if __name__ == "__main__"`` twice. The price is a few
tenths of a second a worker, paid once and for each one replaced.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from lmma.evaluation.pool.worker import Report, WorkerSetup
from lmma.kernels.blas import THREAD_VARIABLES


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
            [sys.executable, "-c", "from lmma.evaluation.pool.worker import main; main()", setup.to_json()],
            pass_fds=(setup.tasks, setup.reports, setup.memory, setup.objective),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # the terminal's Ctrl-C reaches the pool alone, which then tidies up
            env={
                **dict.fromkeys(THREAD_VARIABLES, str(threads)),
                **os.environ,
                "PYTHONPATH": os.pathsep.join(setup.path),  # lmma itself may be on a path set at run time
            },
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return WorkerProcess(setup.slot, process, reading)


def module_path() -> list[str]:
    """Return this process's search path for modules with no entry that depends on where one stands."""
    return [os.path.abspath(entry) for entry in sys.path]
