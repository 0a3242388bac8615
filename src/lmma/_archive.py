"""File format of checkpoints, results and policies: named arrays and a JSON header.

A file is an ordinary ``.npz`` archive without compression or pickle. Its comment, the last 64 bytes, is the
SHA-256 of all preceding bytes, so damage is detected before anything is read. The checksum does not
authenticate the author. Therefore nothing that a file names is imported, run or written unless the user
names it or agrees (``lmma resume``); an untrusted file can at worst provide a wrong start.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lmma import _files
from lmma._files import read_json
from lmma._text import shown

NUMERICS = 8  # increased whenever the same seed gives different numbers, for any method
DIGEST = 64  # bytes: SHA-256 in hexadecimal
HEADER = "header"
# first bytes of every file: a ZIP archive whose first member is the header
START = (*b"PK\3\4", *[None] * 26, *f"{HEADER}.npy".encode())

Header = dict[str, Any]  # JSON values
Arrays = dict[str, npt.NDArray[Any]]


UNREADABLE = (
    zipfile.BadZipFile, KeyError, EOFError, ValueError, TypeError, AttributeError, OverflowError, MemoryError,
    NotImplementedError, RuntimeError, struct.error,
)  # fmt: skip


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message gives the reason and the remedy."""


@dataclass(frozen=True)
class Kind:
    """A kind of file in this format."""

    name: str
    version: int  # increased whenever an older reader would misread it
    continues: bool  # resumes a run bit for bit, so NUMERICS must match
    keeps_previous: bool  # whether the replaced file is kept

    @property
    def format(self) -> str:
        """The value of ``format`` in its header."""
        return f"lmma {self.name}"


CHECKPOINT = Kind("checkpoint", 3, continues=True, keeps_previous=True)
RESULT = Kind("result", 2, continues=False, keeps_previous=False)
POLICY = Kind("policy", 1, continues=False, keeps_previous=False)
KINDS = (CHECKPOINT, RESULT, POLICY)


def previous(path: str | os.PathLike[str]) -> Path:
    """Return the path at which the previous checkpoint is kept."""
    return Path(f"{os.fspath(path)}.prev")


def write(path: Path, header: Header, arrays: Arrays, kind: Kind = CHECKPOINT) -> None:
    """Replace the file at ``path``; a replaced checkpoint is kept at :func:`previous`."""

    def save(aside: Path) -> None:
        with _files.new_file(aside) as file:
            _encode(file, header, arrays, kind)

    kept = previous(path) if kind.keeps_previous else None
    _files.write(path, save, follow=False, durable=True, previous=kept)


def pack(header: Header, arrays: Arrays) -> bytes:
    """Return a checkpoint as bytes, for sending to another process."""
    file = io.BytesIO()
    _encode(file, header, arrays, CHECKPOINT)
    return file.getvalue()


def unpack(data: bytes) -> tuple[Header, Arrays]:
    """Return the header and arrays packed by :func:`pack`; raises the same errors as :func:`read`."""
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
    """Return the header and the arrays of a file.

    Raises
    ------
    CheckpointError
        If the file is damaged, has another format, or has another version.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            return _decode(path, file, kind)
    except FileNotFoundError:
        raise CheckpointError(f"{kind.name} {path} does not exist") from None
    except OSError as error:
        raise CheckpointError(f"{kind.name} {path} cannot be read: {error}") from None


def header_of(path: Path) -> Header:
    """Return the header of a file without verifying its checksum; raise an error if it is unreadable."""
    with zipfile.ZipFile(path) as archive:
        header: Header = read_json(_array(archive, HEADER, path.stat().st_size).tobytes())
    return header


def _decode(path: Path, file: BinaryIO, kind: Kind) -> tuple[Header, Arrays]:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size and not _starts_with(file.read(len(START)), START):
        raise _error(kind, path, f"it is not an lmma {kind.name}")
    if size <= DIGEST:
        raise _error(kind, path, f"it is truncated ({size} bytes)" if size else "it is empty")
    digest = _digest(file, size)
    if file.read(DIGEST) != digest:
        raise _error(kind, path, "its contents do not match its checksum (damaged, truncated or modified)")
    try:
        return _unpack(path, file, size, kind)
    except UNREADABLE as error:
        if isinstance(error, CheckpointError):
            raise
        raise _error(kind, path, f"it is not an lmma {kind.name} ({error})") from None


def _starts_with(head: bytes, start: tuple[int | None, ...]) -> bool:
    """Return whether ``head``, which may be truncated, agrees with ``start``; None matches any byte."""
    return all(expected in (None, byte) for byte, expected in zip(head, start, strict=False))


def _unpack(path: Path, file: BinaryIO, size: int, kind: Kind) -> tuple[Header, Arrays]:
    with zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > size:
            raise _error(kind, path, "its declared size exceeds the size of the file")
        header = read_json(_array(archive, HEADER, size).tobytes())
        if header.get("format") != kind.format:
            raise _error(kind, path, f"it is not an lmma {kind.name}{_other_kind_hint(header, kind)}")
        if header.get("version") != kind.version:
            version = shown(header.get("version"))
            raise _error(
                kind, path, f"its format has version {version}, but this lmma reads version {kind.version}"
            )
        if kind.continues and header.get("numerics") != NUMERICS:
            raise _error(
                kind,
                path,
                f"its numerics have version {header.get('numerics')}, but this lmma has version {NUMERICS}, "
                "so the resumed run would differ from an uninterrupted one: finish it with the version of "
                "lmma that wrote it",
            )
        arrays = {name: _array(archive, name, size) for name in header["arrays"]}
    for name, (dtype, shape) in header["arrays"].items():
        if arrays[name].dtype.str != dtype or list(arrays[name].shape) != shape:
            raise _error(kind, path, f"its array {name!r} does not match its header")
    return header, arrays


def _array(archive: zipfile.ZipFile, name: str, size: int) -> npt.NDArray[Any]:
    """Return one array, after checking its declared size."""
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > size:
        raise ValueError(f"array {name!r} is compressed or larger than the file")
    stream = io.BytesIO(archive.read(info))
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"array {name!r} has an unknown layout")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    data = stream.read()
    if dtype.hasobject or dtype.kind not in "biufc" or fortran:
        raise ValueError(f"array {name!r} does not contain plain numbers")
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def _digest(file: BinaryIO, size: int) -> bytes:
    """Return the checksum of all but the last ``DIGEST`` bytes, and leave the file positioned there."""
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


def _other_kind_hint(header: Header, kind: Kind) -> str:
    """Return a hint if the file is of another kind."""
    names = {other.format: other.name for other in KINDS if other is not kind}
    name = names.get(str(header.get("format")))
    return f", but a {name}; lmma show prints its contents" if name else ""


def _error(kind: Kind, path: Path, reason: str) -> CheckpointError:
    hint = ""
    if kind.keeps_previous:
        hint = "; use another file"
        if previous(path).exists():
            hint = f"; to resume from the previous checkpoint, copy {previous(path)} to {path}"
    return CheckpointError(f"cannot use {kind.name} {path}: {reason}{hint}")
