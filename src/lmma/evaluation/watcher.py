"""A process that kills the programs and removes the files left behind by a process that was killed.

The watched process reports its programs and files on a pipe. When the pipe closes, the process has exited,
and the watcher cleans up. The watcher only uses the standard library. It runs detached, in its own session,
so that signals to the watched process or to its children do not reach it.

A line on the pipe is: a token, then a file (in hexadecimal) or ``-``, then a process group or ``-``. A token
alone means that both are gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

TOKEN = "LMMA_PROGRAM"  # environment variable that marks a program and its children


class Watcher:
    """The connection to the watcher of this process, which is started at the first update."""

    def __init__(self) -> None:
        self._pipe = -1
        self._lock = threading.Lock()

    def update(
        self, token: str, file: str | None = None, group: int | None = None, *, gone: bool = False
    ) -> None:
        """Report a file and a process group to clean up, or with ``gone`` that there is nothing left."""
        if os.name != "posix":
            return
        path = "-" if file is None else os.fsencode(file).hex()
        line = f"{token}\n" if gone else f"{token} {path} {'-' if group is None else group}\n"
        with self._lock:
            for _ in range(2):  # the watcher may have been killed
                try:
                    if self._pipe < 0:
                        self._start()
                    os.write(self._pipe, line.encode())
                    return
                except OSError:
                    self.forget()

    def _start(self) -> None:
        reading, self._pipe = os.pipe()
        try:
            subprocess.run(
                [sys.executable, "-I", "-S", os.path.abspath(__file__)],
                stdin=reading, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", check=True,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise OSError(f"the watcher exited with status {error.returncode}") from None
        finally:
            os.close(reading)

    def forget(self) -> None:
        """Close the pipe to the watcher; after a fork, the pipe belongs to the parent's watcher."""
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.close(self._pipe)
        self._pipe = -1


watcher = Watcher()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=watcher.forget)


def main() -> None:
    """Read registrations from standard input to its end, then kill processes and remove files left over."""
    if os.fork():  # detach, so that killing all children of the process spares the watcher
        os._exit(0)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    registered: dict[str, tuple[str, str]] = {}
    for line in sys.stdin:
        token, *location = line.split()
        if location:
            registered[token] = (location[0], location[1])
        else:
            registered.pop(token, None)
    for attempt in range(3):  # a program that is just starting shows its token a little later
        for token, (file, group) in registered.items():
            _kill(token, group if attempt == 0 else "-")
            if file != "-":
                with contextlib.suppress(OSError):
                    os.unlink(os.fsdecode(bytes.fromhex(file)))
        if registered:
            time.sleep(0.1)


def _kill(token: str, group: str) -> None:
    """Kill a process group, and any process outside it whose environment has the token."""
    if group != "-":  # not reported as gone, so its ID cannot have been reused
        with contextlib.suppress(OSError):
            os.killpg(int(group), signal.SIGKILL)
    mark = f"{TOKEN}={token}".encode()
    with contextlib.suppress(OSError):  # without /proc, only the group is killed
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    os.kill(int(name), signal.SIGKILL)


if __name__ == "__main__":
    main()
