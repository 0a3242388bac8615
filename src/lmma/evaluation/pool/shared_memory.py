"""Memory that a pool and its workers share: candidates, and which worker works on which row.

The memory is a file that has no name: it disappears with the last process that holds it, even if all are
killed, and no tracker has to clean up after them (unlike ``multiprocessing.shared_memory``).
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass

import numpy as np

from lmma.evaluation.base import Array

ALIGNED = 64  # bytes: parts start on a cache line, so that workers do not fight over one
IDLE = -1


def anonymous_file(size: int) -> int:
    """Return a descriptor of a new file of ``size`` bytes that has no name, in memory if possible."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("lmma", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)  # too little memory is an error now, no SIGBUS later
        else:
            os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@dataclass(frozen=True)
class MemoryLayout:
    """The sizes of what is shared, which pool and workers must agree on."""

    slots: int  # workers
    rows: int  # candidates
    n: int
    dtype: str

    @property
    def size(self) -> int:
        """How many bytes the shared memory takes."""
        return sum(_round_up(size) for size in self._sizes())

    def _sizes(self) -> tuple[int, ...]:
        item = np.dtype(self.dtype).itemsize
        return 8, 8 * self.slots, 8 * self.slots, 8 * self.slots, item * self.rows * self.n

    def offsets(self) -> list[int]:
        """Where each part starts."""
        sizes = [_round_up(size) for size in self._sizes()]
        return [sum(sizes[:k]) for k in range(len(sizes))]


class SharedMemory:
    """Named arrays over a file of the given layout.

    ========== ============= ======================================================
    current    (1,)          generation whose values are wanted
    first      (slots,)      row each worker works on, -1 if none
    generation (slots,)      and of which generation
    started    (slots,)      when it began, on the system's monotonic clock
    candidates (rows, n)     what is evaluated
    ========== ============= ======================================================
    """

    def __init__(self, descriptor: int, layout: MemoryLayout) -> None:
        self.layout = layout
        memory = mmap.mmap(descriptor, max(layout.size, 1))
        at = layout.offsets()
        slots, rows = layout.slots, layout.rows
        self.current = np.frombuffer(memory, np.int64, 1, at[0])
        self.first = np.frombuffer(memory, np.int64, slots, at[1])
        self.generation = np.frombuffer(memory, np.int64, slots, at[2])
        self.started = np.frombuffer(memory, np.float64, slots, at[3])
        flat = np.frombuffer(memory, np.dtype(layout.dtype), rows * layout.n, at[4])
        self.candidates: Array = flat.reshape(rows, layout.n)


def _round_up(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
