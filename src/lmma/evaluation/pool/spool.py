"""Values that workers have computed and the pool may not have received yet, in a file per worker.

A pool that is killed loses the reports in its pipes. With a spool, each worker first appends its values to a
file. The next run takes them from there. The pool empties the files when a generation is complete. An archive
has another such file, for rows that it has not written yet.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from lmma.evaluation.base import Answers, Array, Values, unpacked

RECORD = struct.Struct("<IIdQ")  # rows, coordinates, seconds, length of the answers; then points and answers
CHECKSUM = struct.Struct("<I")


class Spooled(NamedTuple):
    """The points of one task and their values and constraints."""

    worker: str
    x: Values  # (rows, n)
    answers: Answers
    seconds: float


@final
class SpoolWriter:
    """The file of one worker, or of the archive, whose ``slot`` is an empty text."""

    def __init__(self, spool: str, slot: int | str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(f"{spool}-{slot}", flags, 0o600)
        self._is_empty = False

    def add(self, x: Array, answers: bytes, seconds: float) -> bool:
        """Append a task's answers, as returned by :func:`~lmma.evaluation.base.packed`, in one write.

        Return whether they were written.
        """
        record = RECORD.pack(*x.shape, seconds, len(answers)) + x.astype(np.float64).tobytes() + answers
        self._is_empty = False
        record += CHECKSUM.pack(zlib.crc32(record))
        with contextlib.suppress(OSError):  # the pool receives the answers anyway
            return os.write(self._descriptor, record) == len(record)
        return False

    def empty(self) -> None:
        """Remove all answers from the file."""
        if not self._is_empty:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                self._is_empty = True

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def files_of(spool: str) -> list[Path]:
    """Return the files of a spool."""
    path = Path(spool)
    with contextlib.suppress(OSError):
        return sorted(other for other in path.parent.iterdir() if other.name.startswith(f"{path.name}-"))
    return []


def empty(spool: str, workers: int) -> None:
    """Empty the files of all workers, whose answers have been received."""
    for slot in range(workers):
        with contextlib.suppress(OSError):
            os.truncate(f"{spool}-{slot}", 0)


def read(spool: str, n: int) -> Iterator[Spooled]:
    """Yield the intact records of all files for points of ``n`` coordinates."""
    for path in files_of(spool):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        at = 0
        while len(data) - at >= RECORD.size + CHECKSUM.size:
            rows, width, seconds, length = RECORD.unpack_from(data, at)
            middle = at + RECORD.size + 8 * rows * width
            end = middle + length
            if width != n or not rows or end + CHECKSUM.size > len(data) or length % (8 * rows):
                break  # the process was killed while it wrote
            if CHECKSUM.unpack_from(data, end)[0] != zlib.crc32(data[at:end]):
                break
            x = np.frombuffer(data, np.float64, rows * width, at + RECORD.size).reshape(rows, width)
            answers = unpacked(data[middle:end], rows)
            yield Spooled(path.name.rpartition("-")[2], x, answers, seconds / rows)
            at = end + CHECKSUM.size


def remove(spool: str) -> None:
    """Remove the files of a spool."""
    for path in files_of(spool):
        with contextlib.suppress(OSError):
            path.unlink()
