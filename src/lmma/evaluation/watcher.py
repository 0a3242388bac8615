"""A process that tidies up after another one: kills the programs and removes the files it left behind.

A process that is killed cannot do so itself. Its watcher is told in advance, on a pipe, what there is; the
end of the pipe means that the process is gone, whatever ended it. It is a script of the standard library
alone, in a session of its own and nobody's child, so that what kills the process does not meet it too.

A line on the pipe is: a token, then a file (in hexadecimal) or ``-``, then a process group or ``-``. A token
alone says that all of it is gone already.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

TOKEN = "LMMA_PROGRAM"  # an environment variable by which a program, and what it starts, is known


class Watcher:
    """The watcher of this process, seen from this process; started when it is first told something."""

    def __init__(self) -> None:
        self._pipe = -1
        self._lock = threading.Lock()

    def tell(
        self, token: str, file: str | None = None, group: int | None = None, *, gone: bool = False
    ) -> None:
        """Say what must not outlive this process, or that it is gone."""
        if os.name != "posix":
            return
        path = "-" if file is None else os.fsencode(file).hex()
        line = f"{token}\n" if gone else f"{token} {path} {'-' if group is None else group}\n"
        with self._lock:
            for _ in range(2):  # somebody may have killed it
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
            raise OSError(f"the watcher ended with status {error.returncode}") from None
        finally:
            os.close(reading)

    def forget(self) -> None:
        """Let go of the watcher, which then tidies up; in a fork, it is that of the parent."""
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.close(self._pipe)
        self._pipe = -1


watcher = Watcher()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=watcher.forget)


def main() -> None:
    """Read standard input to its end, then tidy up."""
    if os.fork():  # nobody's child: who kills all that a process has started does not find it
        os._exit(0)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    there: dict[str, tuple[str, str]] = {}
    for line in sys.stdin:
        token, *what = line.split()
        if what:
            there[token] = (what[0], what[1])
        else:
            there.pop(token, None)
    for turn in range(3):  # what was just being started shows its token a moment later
        for token, (file, group) in there.items():
            _kill(token, group if turn == 0 else "-")
            if file != "-":
                with contextlib.suppress(OSError):
                    os.unlink(os.fsdecode(bytes.fromhex(file)))
        if there:
            time.sleep(0.1)


def _kill(token: str, group: str) -> None:
    """Kill a program, its group, and whatever else carries its token, also outside the group."""
    if group != "-":  # told to be running until it is told to be gone: its number is no other's
        with contextlib.suppress(OSError):
            os.killpg(int(group), signal.SIGKILL)
    mark = f"{TOKEN}={token}".encode()
    with contextlib.suppress(OSError):  # where there is no /proc, the group must do
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    os.kill(int(name), signal.SIGKILL)


if __name__ == "__main__":
    main()
