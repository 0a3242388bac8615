"""Identity of the process that holds a claim, and a test whether it is still running."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lmma._files import is_gone


@dataclass(frozen=True)
class Owner:
    """Identity of a process, unique even if its pid is reused."""

    host: str
    boot: str  # changes when the machine reboots; empty if unknown
    pid: int
    start: str  # start time of the process in clock ticks since boot; empty if unknown

    def text(self) -> str:
        """Return the owner in the format of the store."""
        return f"{self.host} {self.boot or '-'} {self.pid} {self.start or '-'}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Return the owner that :meth:`text` wrote, or None for anything else."""
        parts = text.split(" ")
        if len(parts) != 4 or not parts[2].isdigit():
            return None
        return cls(parts[0], parts[1].replace("-", "") and parts[1], int(parts[2]), parts[3].strip("-"))


def this_process() -> Owner:
    """Return the identity of this process."""
    return _owner(os.getpid())


@cache
def _owner(pid: int) -> Owner:
    return Owner(socket.gethostname() or "localhost", _boot(), pid, _start(pid))


def is_dead(owner: Owner) -> bool | None:
    """Return True if the process has ended, or None if this machine cannot tell."""
    here = this_process()
    if owner.host != here.host:
        return None
    if owner.boot and here.boot and owner.boot != here.boot:
        return True
    gone = is_gone(owner.pid)
    if gone is not False:
        return gone
    start = _start(owner.pid)
    return bool(owner.start and start and owner.start != start)


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
    fields = stat.rpartition(")")[2].split()  # the process name in parentheses may contain blanks
    return "" if fields[0] in "ZX" else fields[19]
