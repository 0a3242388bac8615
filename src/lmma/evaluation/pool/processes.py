"""The processes of a pool: hired, watched, let go.

Each worker is a fresh interpreter, not a fork: a fork copies locks that other threads (BLAS, a notebook's
input) hold and can hang for ever, and what the standard library offers instead imports the caller's main
script again, which runs a script without ``if __name__ == "__main__"`` twice. The price is a few
tenths of a second a worker, paid once and for each one replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from lmma.evaluation.pool.worker import REPORT

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(eq=False)
class Worker:
    """One process of a pool, seen from outside."""

    slot: int
    process: subprocess.Popen[bytes]
    reports: int  # where its reports are read
    ready: bool = False  # whether it has loaded the objective
    heard: bytearray = field(default_factory=bytearray)  # reports, the last perhaps incomplete

    def listen(self) -> bool:
        """Take in what the worker wrote; return False if it has ended."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.reports, 65536):
                self.heard += chunk
            return False
        return True

    def next_report(self) -> tuple[int, int, int, int, bytes] | None:
        """Return what, generation, first row, rows, text of the next complete report, or None."""
        if len(self.heard) < REPORT.size:
            return None
        what, generation, first, rows, length = REPORT.unpack_from(self.heard)
        end = REPORT.size + length
        if len(self.heard) < end:
            return None
        text = bytes(self.heard[REPORT.size : end])
        del self.heard[:end]
        return what, generation, first, rows, text

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

    def forget(self) -> None:
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


def hire(slot: int, setup: dict[str, Any], descriptors: tuple[int, ...], crew: int) -> Worker:
    """Return a new worker with the given setup; it inherits ``descriptors`` and nothing else."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        words = setup | {"slot": slot, "reports": writing, "pool": os.getpid(), "path": _paths()}
        threads = str(max(1, (os.cpu_count() or 1) // crew))  # so that workers do not fight over cores
        process = subprocess.Popen(
            [sys.executable, "-c", "from lmma.evaluation.pool.worker import main; main()", json.dumps(words)],
            pass_fds=(*descriptors, writing),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # the terminal's Ctrl-C reaches the pool alone, which then tidies up
            env={
                **dict.fromkeys(THREADS, threads),
                **os.environ,
                "PYTHONPATH": os.pathsep.join(_paths()),  # lmma itself may be on a path set at run time
            },
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return Worker(slot, process, reading)


def _paths() -> list[str]:
    """Return this process's search path for modules with no entry that depends on where one stands."""
    return [os.path.abspath(entry) for entry in sys.path]
