"""The worker process of a pool, and the memory and messages that it shares with the pool.

Candidates are in an anonymous file mapped by the pool and its workers. The file disappears with the last
process that has it open, even if all are killed, so no resource tracker is needed (unlike
``multiprocessing.shared_memory``).

A task is a record of four 32-bit numbers on one pipe that all workers read. A free worker reads the next
record; there is no lock that a killed worker could leave locked. End of file means the pool has exited.

Where memory cannot be shared (``piped.py``), a task and its candidates are read from standard input.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import pickle
import queue
import signal
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lmma.evaluation.base import Answers, Array, Function, VectorizedCall, as_answer, packed
from lmma.evaluation.failures import TaskFailure
from lmma.evaluation.pool.spool import SpoolWriter

TASK = struct.Struct("<IIII")  # generation, first row, rows, zero
HEADER = struct.Struct("<IIIIdQ")  # of a report: kind, generation, first row, rows, seconds, content length
# Of a task with candidates: generation, first row, rows, columns, type
PIPED_TASK = struct.Struct("<IIIQ8s")
READY, DONE, FAILED, BROKEN = range(4)  # kinds of reports

PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>
POLL_INTERVAL = 0.5  # seconds between checks that the pool is running, where prctl is not available


# Shared memory

CACHE_LINE = 64  # bytes: each part starts on a new cache line, to avoid false sharing
IDLE = -1


def anonymous_file(size: int) -> int:
    """Return a descriptor of a new unnamed file of ``size`` bytes, in memory if possible."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("lmma", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        extend(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def extend(descriptor: int, size: int) -> None:
    """Extend a file to ``size`` bytes, keeping its contents."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)  # fail now if memory is short, not with SIGBUS later
    else:
        os.ftruncate(descriptor, size)


@dataclass(frozen=True)
class MemoryLayout:
    """The layout of the shared memory."""

    slots: int  # workers
    rows: int  # candidates
    n: int
    dtype: str

    @property
    def size(self) -> int:
        """Size of the shared memory in bytes."""
        return sum(_round_up(size) for size in self._sizes())

    def _sizes(self) -> tuple[int, ...]:
        item = np.dtype(self.dtype).itemsize
        return 8, 8 * self.slots, 8 * self.slots, 8 * self.slots, item * self.rows * self.n

    def offsets(self) -> list[int]:
        """Return the offset of each part in bytes."""
        sizes = [_round_up(size) for size in self._sizes()]
        return [sum(sizes[:k]) for k in range(len(sizes))]


class SharedMemory:
    """Named arrays over a file of the given layout.

    ========== ============= ======================================================
    current    (1,)          generation under evaluation
    first      (slots,)      first row of each worker's task, -1 if idle
    generation (slots,)      generation of each worker's task
    started    (slots,)      start of the task, on the system's monotonic clock
    candidates (rows, n)     candidates
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
        self._descriptor = descriptor

    def remapped(self) -> SharedMemory:
        """Return the memory mapped again with as many rows as the extended file has room for."""
        layout = self.layout
        room = os.fstat(self._descriptor).st_size - layout.offsets()[-1]
        rows = room // (layout.n * np.dtype(layout.dtype).itemsize)
        return SharedMemory(self._descriptor, replace(layout, rows=rows))


def _round_up(size: int) -> int:
    return -(-size // CACHE_LINE) * CACHE_LINE


# Messages


@dataclass(frozen=True)
class WorkerSetup:
    """Settings of a worker process, passed on its command line as JSON."""

    slot: int
    tasks: int  # this and the next three: inherited descriptors
    reports: int
    memory: int
    objective: int
    length: int  # of the pickled objective, in bytes
    layout: MemoryLayout
    vectorized: bool
    pool: int  # process id
    path: list[str]  # module search path
    spool: str | None = None  # see spool.py

    def to_json(self) -> str:
        """Return the setup as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WorkerSetup:
        """Return the setup from JSON text."""
        fields = json.loads(text)
        return cls(**{**fields, "layout": MemoryLayout(**fields["layout"])})


class Report(NamedTuple):
    """A report of a worker about a task or its own start."""

    kind: int
    generation: int = 0
    first: int = 0
    rows: int = 0
    seconds: float = 0.0
    content: bytes = b""  # values and constraints, or a pickled TaskFailure

    @classmethod
    def read(cls, unread: bytearray) -> Report | None:
        """Remove the next report from the front of ``unread``; return None if it is incomplete."""
        if len(unread) < HEADER.size:
            return None
        kind, generation, first, rows, seconds, length = HEADER.unpack_from(unread)
        end = HEADER.size + length
        if len(unread) < end:
            return None
        content = bytes(unread[HEADER.size : end])
        del unread[:end]
        return cls(kind, generation, first, rows, seconds, content)

    def write(self, descriptor: int) -> None:
        """Write the report to a pipe."""
        message = HEADER.pack(*self[:5], len(self.content)) + self.content
        while message:
            message = message[os.write(descriptor, message) :]


# The process


def main() -> None:
    """Serve one pool until it exits. The command-line argument is a :class:`WorkerSetup`."""
    setup = WorkerSetup.from_json(sys.argv[1])
    _die_with_parent(setup.pool)
    for descriptor in (setup.tasks, setup.reports, setup.memory, setup.objective):
        os.set_inheritable(descriptor, False)  # programs started by fun must not keep the pipes open
    try:
        _load_and_serve(setup)
    except BrokenPipeError:  # the pool has exited
        os._exit(1)


def _load_and_serve(setup: WorkerSetup) -> None:
    memory = SharedMemory(setup.memory, setup.layout)

    def read_objective() -> bytes:
        with os.fdopen(os.dup(setup.objective), "rb") as file:
            return os.pread(file.fileno(), setup.length, 0)

    call = load(read_objective, setup.path, setup.vectorized, setup.reports)
    if call is not None and setup.spool is not None:
        call.spool = SpoolWriter(setup.spool, setup.slot)
    if call is not None:
        serve(setup, memory, call)


def load(
    read_objective: Callable[[], bytes], path: list[str], vectorized: bool, reports: int
) -> TaskCall | None:
    """Load the objective and report READY; if that fails, report BROKEN and return None."""
    try:
        sys.path[:] = path
        fun, args = pickle.loads(read_objective())
    except BaseException as error:
        Report(BROKEN, content=pickle.dumps(TaskFailure.of(error))).write(reports)
        return None
    Report(READY).write(reports)
    return TaskCall(fun, args, vectorized)


class TaskCall:
    """Evaluates the rows of a task.

    Parameters
    ----------
    fun : callable
        The objective.
    args : tuple
        Its further arguments.
    vectorized : bool
        Whether ``fun`` takes many rows at once; otherwise a task has one row.
    """

    def __init__(self, fun: Function, args: tuple[object, ...], vectorized: bool) -> None:
        self.fun = fun
        self.args = args
        self.call_rows = VectorizedCall(fun, args) if vectorized else None
        self.spool: SpoolWriter | None = None

    def __call__(self, x: Array) -> tuple[int, bytes]:
        """Return the kind and the content of the report."""
        if self.spool is None:
            return self._call(x)
        began, point = time.monotonic(), x.copy()  # fun may modify x
        kind, content = self._call(x)
        if kind == DONE:
            self.spool.add(point, content, time.monotonic() - began)
        return kind, content

    def _call(self, x: Array) -> tuple[int, bytes]:
        try:
            if self.call_rows is not None:
                answers: Answers = self.call_rows(x)
            else:
                value, constraint_values = as_answer(self.fun(x[0], *self.args))
                answers = (
                    np.array([value]),
                    None if constraint_values is None else constraint_values[np.newaxis],
                )
        except BaseException as error:
            return FAILED, pickle.dumps(TaskFailure.of(error))
        return DONE, packed(answers)


def serve(setup: WorkerSetup, memory: SharedMemory, call: TaskCall) -> None:
    """Evaluate tasks until the pipe is closed."""
    slot = setup.slot
    while len(record := os.read(setup.tasks, TASK.size)) == TASK.size:
        generation, first, rows, _ = TASK.unpack(record)
        if generation != memory.current[0]:
            continue  # this generation has been closed
        if first + rows > len(memory.candidates):  # the pool has extended the file
            memory = memory.remapped()
        # Write ``first`` last: the pool reads it before ``started`` and ``generation``.
        memory.started[slot] = began = time.monotonic()
        memory.generation[slot] = generation
        memory.first[slot] = first
        # A copy: fun may keep or modify its argument
        kind, content = call(memory.candidates[first : first + rows].copy())
        # Through the pipe, not shared memory: a late result must not touch the next generation.
        seconds = time.monotonic() - began
        Report(kind, generation, first, rows, seconds, content).write(setup.reports)
        memory.first[slot] = IDLE


def _die_with_parent(pool: int) -> None:
    """Make sure that this process is killed when the pool exits for any reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_exit_after, args=(pool,), daemon=True).start()
    if os.getppid() != pool:  # the pool exited before prctl was called
        os._exit(1)


def _exit_after(pool: int) -> None:
    """Exit, even during an evaluation, once the parent is no longer ``pool``."""
    while os.getppid() == pool:
        time.sleep(POLL_INTERVAL)
    os._exit(1)


# The process without shared memory


def main_piped() -> None:
    """Serve one pool on standard input and output until it exits.

    The command-line argument is JSON: ``[vectorized, length of the objective in bytes, module path, spool,
    slot]``.
    """
    vectorized, length, path, spool, slot = json.loads(sys.argv[1])
    tasks, reports = _take_standard_streams()
    received: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_tasks, args=(tasks, length, received), daemon=True).start()
    try:
        call = load(received.get, path, vectorized, reports)
        if call is not None and spool is not None:
            call.spool = SpoolWriter(spool, slot)
        while call is not None:
            generation, first, x = received.get()
            began = time.monotonic()
            kind, content = call(x)
            seconds = time.monotonic() - began
            Report(kind, generation, first, len(x), seconds, content).write(reports)
    except OSError:  # the pool has exited
        os._exit(1)


def _take_standard_streams() -> tuple[int, int]:
    """Return private descriptors of the pipes that this process was started with.

    Programs started by ``fun`` do not inherit them. ``fun`` finds an empty standard input, and its output
    goes to standard error.
    """
    tasks, reports = os.dup(0), os.dup(1)
    with open(os.devnull, "r+b", buffering=0) as null:
        os.dup2(null.fileno(), 0)
        try:
            os.dup2(2, 1)
        except OSError:  # standard error is closed
            os.dup2(null.fileno(), 1)
    return tasks, reports


def _read_tasks(descriptor: int, length: int, received: queue.SimpleQueue[Any]) -> None:
    """Pass on the objective and then each task; exit, even during an evaluation, when the pipe is closed."""
    try:
        with os.fdopen(descriptor, "rb") as pipe:
            received.put(pipe.read(length))
            while len(record := pipe.read(PIPED_TASK.size)) == PIPED_TASK.size:
                generation, first, rows, n, dtype = PIPED_TASK.unpack(record)
                x = np.empty((rows, n), np.dtype(dtype.rstrip(b"\0").decode()))
                pipe.readinto(x.data.cast("B"))
                received.put((generation, first, x))
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
