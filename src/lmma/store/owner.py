"""Who holds a claim, and whether that process still lives."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """A process, told apart from every other one, also from a later one with the same number."""

    host: str
    boot: str  # differs after a restart of the machine; empty where it cannot be known
    pid: int
    start: str  # when the process began, in ticks of its boot; empty where it cannot be known

    def text(self) -> str:
        """Return the owner as the store keeps it."""
        return f"{self.host} {self.boot or '-'} {self.pid} {self.start or '-'}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Return the owner that :meth:`text` wrote, or None for anything else."""
        words = text.split(" ")
        if len(words) != 4 or not words[2].isdigit():
            return None
        return cls(words[0], words[1].replace("-", "") and words[1], int(words[2]), words[3].strip("-"))


def myself() -> Owner:
    """Return this process."""
    return _owner(os.getpid())


@cache
def _owner(pid: int) -> Owner:
    return Owner(socket.gethostname() or "localhost", _boot(), pid, _start(pid))


def is_dead(owner: Owner) -> bool | None:
    """Return whether a process is gone, or None where this machine cannot know."""
    here = myself()
    if owner.host != here.host:
        return None
    if owner.boot and here.boot and owner.boot != here.boot:
        return True
    gone = is_gone(owner.pid)
    if gone is not False:
        return gone
    start = _start(owner.pid)
    return bool(owner.start and start and owner.start != start)


def is_gone(pid: int) -> bool | None:
    """Return whether this machine has no process of that number, or None where that cannot be asked."""
    if os.name != "posix":  # there, signal 0 is no question: os.kill would end the process
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it lives, and belongs to somebody else
    return False


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()  # the name before it may hold blanks
    return "" if fields[0] in "ZX" else fields[19]
