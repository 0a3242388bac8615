"""Files: atomic writes, locks, and readers that check size limits before allocating memory.

A small file can declare arrays of any size. Readers first compare the declared size with the size of the
file and with a fixed limit.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import zipfile

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]
msvcrt: Any = None
if fcntl is None:
    with contextlib.suppress(ImportError):
        import msvcrt  # Windows

NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
BINARY: int = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # errors of a file system without locks
LOCKED_BYTE = 1 << 30  # on Windows a locked byte cannot be read, and the owner must stay readable
LARGEST = 1 << 30  # bytes of all arrays of an archive together, and of an uncompressed idx file
EXPANSION = 50  # maximum of expanded size / file size; arrays of real models compress to about a third
SLACK = 1 << 20  # bytes that any archive may expand to
KINDS = "biufcU"  # of arrays: numbers and strings


class OutputError(OSError):
    """A file could not be written; the message names the file and the reason."""

    def __str__(self) -> str:
        return str(self.strerror or super().__str__())


def write(
    path: Path,
    save: Callable[[Path], None],
    *,
    follow: bool = True,
    durable: bool = False,
    previous: Path | None = None,
) -> None:
    """Replace ``path`` atomically by the file that ``save`` writes to a temporary path in the same folder.

    A reader finds the old file or the new one, never a partial one.

    Parameters
    ----------
    path : Path
        The file.
    save : callable
        Called with the temporary path, which does not exist yet.
    follow : bool
        Whether to follow a symbolic link at ``path`` and create missing folders.
    durable : bool
        Whether to sync the file and its folder to disk, so that it survives a system crash.
    previous : Path, optional
        A path at which the replaced file is kept.
    """
    target = path.resolve() if follow else path
    aside = _temporary(target)
    try:
        if follow:
            target.parent.mkdir(parents=True, exist_ok=True)
        aside.unlink(missing_ok=True)  # also a link placed there
        save(aside)
        if durable:
            _sync(aside)
        if previous is not None:
            _link_previous(target, previous)
        os.replace(aside, target)
        if durable:
            with contextlib.suppress(OSError):  # some systems cannot open folders
                _sync(target.absolute().parent)
    except OSError as error:
        raise OutputError(error.errno, f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)


def new_file(path: Path) -> BinaryIO:
    """Create and open a file for reading and writing; fail if it exists or is a symbolic link."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW | BINARY, 0o666), "w+b")


def _temporary(path: Path, kind: str = "") -> Path:
    return path.with_name(f".{path.name}.{kind}{os.getpid()}.tmp{path.suffix}")


def remove_leftovers(path: Path) -> None:
    """Remove temporary files of processes that were killed while replacing ``path``.

    Only the holder of a lock on ``path`` may call this: no other process is then writing it.
    """
    name = re.compile(rf"\.{re.escape(path.name)}\.(prev\.)?\d+\.tmp{re.escape(path.suffix)}")
    with contextlib.suppress(OSError):
        for other in path.absolute().parent.iterdir():
            if name.fullmatch(other.name):
                other.unlink()


def _link_previous(path: Path, previous: Path) -> None:
    """Link or copy the file at ``path`` to ``previous``."""
    if not path.exists():
        return
    aside = _temporary(path, "prev.")
    aside.unlink(missing_ok=True)
    try:
        os.link(path, aside)
    except OSError:  # a file system without hard links
        with open(path, "rb") as there, new_file(aside) as copy:
            shutil.copyfileobj(there, copy)
    os.replace(aside, previous)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` by a text file in UTF-8."""

    def save(aside: Path) -> None:
        aside.write_text(text, encoding="utf-8")

    write(path, save)


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; anything unreadable raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def read_arrays(archive: zipfile.ZipFile, names: tuple[str, ...], size: int) -> dict[str, NDArray[Any]]:
    """Return the arrays ``names`` of a ``.npz`` file of ``size`` bytes.

    Raises
    ------
    KeyError
        If an array is missing.
    ValueError
        If the arrays exceed a limit, contradict their header, or contain anything but numbers and strings.
    """
    members = {name: archive.getinfo(f"{name}.npy") for name in names}
    declared = sum(member.file_size for member in members.values())
    if declared > LARGEST:
        raise ValueError(f"its arrays need {declared:,} bytes, more than the limit of {LARGEST:,}")
    if declared > EXPANSION * size + SLACK:
        raise ValueError(f"its arrays need {declared:,} bytes, too many for a file of {size:,}")
    return {name: _array(archive.read(member), name) for name, member in members.items()}


def _array(data: bytes, name: str) -> NDArray[Any]:
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject or dtype.kind not in KINDS:
        raise ValueError(f"array {name!r} does not contain plain numbers or strings")
    values = np.frombuffer(data, dtype=dtype, offset=stream.tell()) if dtype.itemsize else np.empty(0, dtype)
    return values.reshape(shape, order="F" if fortran else "C").copy()


def is_gone(pid: int) -> bool | None:
    """Return whether this machine has no process ``pid``; None if the system cannot tell."""
    if os.name != "posix":  # on Windows, os.kill(pid, 0) would end the process
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it exists and belongs to another user
    return False


# Locks


def lock_open_file(descriptor: int) -> None:
    """Lock an open file until it is closed or the process ends.

    Raises
    ------
    BlockingIOError
        If another process, or another descriptor of this one, holds the lock.
    OSError
        If the file system (``NO_LOCKS``) or the operating system has no locks.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    if msvcrt is None:
        raise OSError(errno.ENOSYS, "file locks are not available")
    os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except PermissionError as error:
        raise BlockingIOError(error.errno, "locked by another process") from None
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


@final
class Lock:
    """Reserves a file for one run, from :meth:`acquire` to :meth:`release`, with a lock file next to it.

    The system releases the lock when the process ends, however it ends. On file systems without locks, a
    file that names its owner is used instead; it is taken over if the owner is known to have ended. The
    package ``filelock`` neither names the owner nor takes over from a killed process.

    Parameters
    ----------
    file : Path
        The file to reserve.
    what : str
        The kind of file, for messages.
    error : type
        The exception to raise if another process, or another run of this process, holds the lock.
    """

    def __init__(self, file: Path, what: str, error: type[Exception]) -> None:
        self.file, self.what, self.error = file, what, error
        self.path = file.with_name(f".{file.name}.lock")
        self._descriptor: int | None = None
        self._pid = 0

    def acquire(self) -> None:
        """Take the lock, and remove temporary files of killed processes."""
        if self._descriptor is not None:
            raise self._in_use(_this_process())
        try:
            self._descriptor = self._exclusive() if fcntl is msvcrt is None else self._locked()
        except OSError as error:
            raise self.error(
                f"{self.what} {self.file} cannot be locked: {error.strerror or error} ({self.path})"
            ) from None
        self._pid = os.getpid()
        with contextlib.suppress(OSError):  # on a full disk the lock works without its owner's name
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, json.dumps(_this_process()).encode())
        remove_leftovers(self.file)

    def release(self) -> None:
        """Release the lock, if held."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        if fcntl is None:  # Windows cannot remove a file that is open, here or in another process
            os.close(descriptor)
        if os.getpid() == self._pid:  # in a fork, the parent still holds the lock
            with contextlib.suppress(OSError):
                self.path.unlink()
        if fcntl is not None:
            os.close(descriptor)

    def __del__(self) -> None:  # for a run that was created but never executed
        self.release()

    def _locked(self) -> int:
        """Return the descriptor of the lock file, locked by the system."""
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666)
            try:
                lock_open_file(descriptor)
                if fcntl is None or _is_same_file(self.path, descriptor):
                    return descriptor
            except BlockingIOError:
                owner = _read_owner(self.path)
                os.close(descriptor)
                raise self._in_use(owner) from None
            except OSError as error:
                os.close(descriptor)
                if error.errno not in NO_LOCKS:
                    raise
                self.path.unlink()
                return self._exclusive()
            os.close(descriptor)  # its owner has removed this file in the meantime

    def _exclusive(self) -> int:
        """Return the descriptor of a newly created file that serves as a lock."""
        self.path = self.file.with_name(f".{self.file.name}.owner")
        while True:
            try:
                return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666)
            except FileExistsError:
                owner = _read_owner(self.path)
                if not _is_dead(owner):
                    raise self._in_use(
                        owner, f"; if that process no longer runs, remove {self.path}"
                    ) from None
                self.path.unlink(missing_ok=True)

    def _in_use(self, owner: dict[str, Any], more: str = "") -> Exception:
        whose = "another process"
        if owner == _this_process():
            whose = "another run of this process"
        elif owner:
            whose = f"process {owner.get('pid')} on {owner.get('host')}"
        return self.error(
            f"{self.what} {self.file} is in use by {whose}: wait until it has finished, or use another "
            f"file{more}"
        )


def _this_process() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": socket.gethostname()}


def _read_owner(path: Path) -> dict[str, Any]:
    """Return the owner recorded in a lock file; empty if it cannot be read."""
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
    """Return whether the owner is a process of this machine that has ended."""
    pid = owner.get("pid")
    if owner.get("host") != socket.gethostname() or not isinstance(pid, int) or pid < 1:
        return False
    return is_gone(pid) is True


def _is_same_file(path: Path, descriptor: int) -> bool:
    """Return whether the open file is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False
