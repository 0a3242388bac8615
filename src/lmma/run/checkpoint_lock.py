"""One process at a time on a checkpoint: a lock beside the file, held for the life of a run.

The system releases the lock when its process ends, however that happens. Where a file system has no locks, a
file that names its owner takes their place; it is taken over from a process that is known to be dead.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
from pathlib import Path
from typing import Any, final

from lmma.run.checkpoint_file import NO_FOLLOW, CheckpointError
from lmma.store.owner import is_gone

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]
msvcrt: Any = None
if fcntl is None:
    with contextlib.suppress(ImportError):
        import msvcrt  # Windows

FAR = 1 << 30  # the byte that Windows locks: a locked one cannot be read, and the owner's name is to be
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # what a file system without locks answers


@final
class Lock:
    """Keeps others from a checkpoint, from :meth:`acquire` to :meth:`release`.

    Whoever holds it may remove what earlier processes left half written, for nobody else is writing.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.path = file.with_name(f".{file.name}.lock")
        self._descriptor: int | None = None
        self._pid = 0

    def acquire(self) -> None:
        """Take the lock.

        Raises
        ------
        CheckpointError
            If another process, or another run of this one, has it; the message says which.
        """
        if self._descriptor is not None:
            raise self._refused(_myself())
        try:
            self._descriptor = self._exclusive() if fcntl is msvcrt is None else self._locked()
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {self.file} cannot be locked: {error.strerror or error} ({self.path})"
            ) from None
        self._pid = os.getpid()
        with contextlib.suppress(OSError):  # a full disk: the lock holds without a name in it
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, json.dumps(_myself()).encode())
        self._remove_leftovers()

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        if fcntl is None:  # a file that is open cannot be removed there, be it ours or that of the next owner
            os.close(descriptor)
        if os.getpid() == self._pid:  # and not a fork, whose parent still holds it
            with contextlib.suppress(OSError):
                self.path.unlink()
        if fcntl is not None:
            os.close(descriptor)

    def __del__(self) -> None:  # of a run that was made and never executed
        self.release()

    def _locked(self) -> int:
        """Return the lock file, open and locked by the system."""
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666)
            try:
                _lock(descriptor)
                if fcntl is None or _is_at(self.path, descriptor):
                    return descriptor
            except BlockingIOError:
                owner = _owner(self.path)
                os.close(descriptor)
                raise self._refused(owner) from None
            except OSError as error:
                os.close(descriptor)
                if error.errno not in NO_LOCKS:
                    raise
                self.path.unlink()
                return self._exclusive()
            os.close(descriptor)  # of one that its owner has removed meanwhile

    def _exclusive(self) -> int:
        """Return a file that was not there before, which stands for a lock."""
        self.path = self.file.with_name(f".{self.file.name}.owner")
        while True:
            try:
                return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666)
            except FileExistsError:
                owner = _owner(self.path)
                if not _is_dead(owner):
                    raise self._refused(owner, f"; if that is no longer so, remove {self.path}") from None
                self.path.unlink(missing_ok=True)

    def _remove_leftovers(self) -> None:
        """Remove what processes that were killed left half written."""
        name = re.compile(rf"\.{re.escape(self.file.name)}\.(prev\.)?(\d+\.)?tmp")
        with contextlib.suppress(OSError):
            for path in self.file.absolute().parent.iterdir():
                if name.fullmatch(path.name):
                    path.unlink()

    def _refused(self, owner: dict[str, Any], more: str = "") -> CheckpointError:
        whose = "another process"
        if owner == _myself():
            whose = "another run of this process"
        elif owner:
            whose = f"process {owner.get('pid')} on {owner.get('host')}"
        return CheckpointError(
            f"checkpoint {self.file} is in use by {whose}: wait until it has ended, or name another "
            f"file{more}"
        )


def _lock(descriptor: int) -> None:
    """Have the system lock an open file; BlockingIOError if another one holds it."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    os.lseek(descriptor, FAR, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except PermissionError as error:
        raise BlockingIOError(error.errno, "locked by another") from None
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


def _myself() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": socket.gethostname()}


def _owner(path: Path) -> dict[str, Any]:
    """Return who holds a lock, as far as its file tells."""
    try:
        descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW)
        try:
            owner = json.loads(os.read(descriptor, 1000))
        finally:
            os.close(descriptor)
    except (OSError, ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _is_dead(owner: dict[str, Any]) -> bool:
    """Return whether a process of this machine is known to have ended."""
    pid = owner.get("pid")
    if owner.get("host") != socket.gethostname() or not isinstance(pid, int) or pid < 1:
        return False
    return is_gone(pid) is True


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False
