"""The file of a checkpoint or of a result: arrays and a JSON header, written whole or not at all.

The file is an ordinary ``.npz`` archive, stored without compression and without pickle. Its comment, the
last 64 bytes, is the SHA-256 of all bytes before, so any damage is noticed before anything is read. It
does not tell who wrote the file: nothing that a file names is imported, run or written unless the user
names it or agrees (``lmma resume``), so a file from a stranger can at worst be a wrong start.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lmma.kernels.words import shown
from lmma.store.untrusted import read_json

NUMERICS = 7  # raised whenever the same seed gives other numbers than before, for any method
DIGEST = 64  # bytes: SHA-256 in hexadecimal
HEADER = "header"
NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NO_TRANSLATION: int = getattr(os, "O_BINARY", 0)  # of ends of lines, which Windows would do

Header = dict[str, Any]  # what JSON can say
Arrays = dict[str, npt.NDArray[Any]]


UNREADABLE = (
    zipfile.BadZipFile, KeyError, EOFError, ValueError, TypeError, AttributeError, OverflowError, MemoryError,
    NotImplementedError, RuntimeError, struct.error,
)  # fmt: skip


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message says why, and what to do."""


@dataclass(frozen=True)
class Kind:
    """What a file in this layout is."""

    name: str
    version: int  # raised whenever an older reader would misread it
    continues: bool  # to the same end as an unbroken run: numbers of another version are refused
    keeps_previous: bool  # beside a new one

    @property
    def format(self) -> str:
        """What its header says."""
        return f"lmma {self.name}"


CHECKPOINT = Kind("checkpoint", 2, continues=True, keeps_previous=True)
RESULT = Kind("result", 1, continues=False, keeps_previous=False)
POLICY = Kind("policy", 1, continues=False, keeps_previous=False)
KINDS = (CHECKPOINT, RESULT, POLICY)


def previous(path: str | os.PathLike[str]) -> Path:
    """Return the name under which the checkpoint before the last is kept."""
    return Path(f"{os.fspath(path)}.prev")


def write(path: Path, header: Header, arrays: Arrays, kind: Kind = CHECKPOINT) -> None:
    """Put a checkpoint or a result at ``path`` such that at every moment a whole one is there.

    It is written under another name, forced to the disk and then renamed; a checkpoint that was at ``path``
    is kept. The names are this process's own, and no symbolic link is followed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with os.fdopen(_new(temporary), "w+b") as file:
            _encode(file, header, arrays, kind)
            file.flush()
            os.fsync(file.fileno())
        if kind.keeps_previous:
            _keep_previous(path)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.absolute().parent)


def _new(path: Path) -> int:
    """Open a file that was not there; a link that somebody has put in its place is removed, not followed."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW | NO_TRANSLATION, 0o666)


def pack(header: Header, arrays: Arrays) -> bytes:
    """Return a checkpoint as bytes, to be sent rather than kept."""
    file = io.BytesIO()
    _encode(file, header, arrays, CHECKPOINT)
    return file.getvalue()


def unpack(data: bytes) -> tuple[Header, Arrays]:
    """Return the header and the arrays of :func:`pack`, or refuse them as :func:`read` does."""
    return _decode(Path("(sent)"), io.BytesIO(data), CHECKPOINT)


def _encode(file: BinaryIO, header: Header, arrays: Arrays, kind: Kind) -> None:
    about = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    header = {"format": kind.format, "version": kind.version, "numerics": NUMERICS, **header, "arrays": about}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {HEADER: text, **arrays}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(
                    member, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False
                )
        archive.comment = b"0" * DIGEST
    size = file.tell()
    file.seek(size - DIGEST)
    digest = _digest(file, size)
    file.seek(size - DIGEST)
    file.write(digest)


def read(path: str | os.PathLike[str], kind: Kind = CHECKPOINT) -> tuple[Header, Arrays]:
    """Return the header and the arrays of a file, or refuse it with the reason.

    Raises
    ------
    CheckpointError
        If the file is damaged, is none of ours, or is of another version.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            return _decode(path, file, kind)
    except FileNotFoundError:
        raise CheckpointError(f"there is no {kind.name} {path}") from None
    except OSError as error:
        raise CheckpointError(f"{kind.name} {path} cannot be read: {error}") from None


def header_of(path: Path) -> Header:
    """Return the header of a file that has not been checked; any damage raises."""
    with zipfile.ZipFile(path) as archive:
        header: Header = read_json(_array(archive, HEADER, path.stat().st_size).tobytes())
    return header


def _decode(path: Path, file: BinaryIO, kind: Kind) -> tuple[Header, Arrays]:
    size = file.seek(0, os.SEEK_END)
    if size <= DIGEST:
        raise _refused(kind, path, f"it is cut short ({size} bytes)")
    digest = _digest(file, size)
    if file.read(DIGEST) != digest:
        raise _refused(kind, path, "its contents do not match its checksum: damaged, cut short or altered")
    try:
        return _unpack(path, file, size, kind)
    except UNREADABLE as error:
        if isinstance(error, CheckpointError):
            raise
        raise _refused(kind, path, f"it is no {kind.name} of lmma ({error})") from None


def _unpack(path: Path, file: BinaryIO, size: int, kind: Kind) -> tuple[Header, Arrays]:
    with zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > size:
            raise _refused(kind, path, "it promises more than it holds")
        header = read_json(_array(archive, HEADER, size).tobytes())
        if header.get("format") != kind.format:
            raise _refused(kind, path, f"it is no {kind.name} of lmma{_other(header, kind)}")
        if header.get("version") != kind.version:
            version = shown(header.get("version"))
            raise _refused(kind, path, f"its format is version {version}, this lmma reads {kind.version}")
        if kind.continues and header.get("numerics") != NUMERICS:
            raise _refused(
                kind,
                path,
                f"its numbers are of version {header.get('numerics')}, this lmma's of {NUMERICS}, and "
                "a resumed run is to equal the unbroken one to the last bit: finish it with the lmma that "
                "wrote it",
            )
        arrays = {name: _array(archive, name, size) for name in header["arrays"]}
    for name, (dtype, shape) in header["arrays"].items():
        if arrays[name].dtype.str != dtype or list(arrays[name].shape) != shape:
            raise _refused(kind, path, f"its array {name!r} is not what its header says")
    return header, arrays


def _array(archive: zipfile.ZipFile, name: str, size: int) -> npt.NDArray[Any]:
    """Return one array, without trusting its declared size to be what memory can hold."""
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > size:
        raise ValueError(f"array {name!r} is compressed or larger than the file")
    stream = io.BytesIO(archive.read(info))
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"array {name!r} has an unknown layout")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    data = stream.read()
    if dtype.hasobject or dtype.kind not in "biufc" or fortran:
        raise ValueError(f"array {name!r} holds no plain numbers")
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def _digest(file: BinaryIO, size: int) -> bytes:
    """Return the checksum of all but the last bytes; the file stands after what it covers."""
    file.seek(0)
    state = hashlib.sha256()
    left = size - DIGEST
    while left > 0:
        chunk = file.read(min(left, 1 << 20))
        if not chunk:
            raise OSError("the file ends early")
        state.update(chunk)
        left -= len(chunk)
    return state.hexdigest().encode()


def _keep_previous(path: Path) -> None:
    """Give the checkpoint at ``path`` a second name, so that the new one can take its first."""
    if not path.exists():
        return
    beside = path.with_name(f".{path.name}.prev.{os.getpid()}.tmp")
    beside.unlink(missing_ok=True)
    try:
        os.link(path, beside)
    except OSError:  # a file system without hard links
        with open(path, "rb") as there, os.fdopen(_new(beside), "wb") as copy:
            shutil.copyfileobj(there, copy)
    os.replace(beside, previous(path))


def _sync_folder(folder: Path) -> None:
    """Force the renaming itself to the disk."""
    with contextlib.suppress(OSError):  # some systems do not open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _other(header: Header, kind: Kind) -> str:
    """Return what a file is that is of another kind."""
    names = {other.format: other.name for other in KINDS if other is not kind}
    name = names.get(str(header.get("format")))
    return f", but a {name}: lmma show says what is in it" if name else ""


def _refused(kind: Kind, path: Path, reason: str) -> CheckpointError:
    hint = ""
    if kind.keeps_previous and previous(path).exists():
        hint = f"; the one before is {previous(path)}, copy it to {path} to go on from there"
    return CheckpointError(f"{kind.name} {path} is refused: {reason}{hint}")
