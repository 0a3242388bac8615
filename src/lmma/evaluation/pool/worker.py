"""What runs in each process of a pool: read a task, evaluate, report the value.

A task is a record of four 32-bit numbers on one pipe that all workers read: whoever is free takes the next,
and no worker can hold a lock while it is killed. The end of that pipe means the pool is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import signal
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from lmma.evaluation.base import Answers, Function, as_answer, call_with_rows, packed
from lmma.evaluation.failures import TaskFailure
from lmma.evaluation.pool.shared_memory import IDLE, MemoryLayout, SharedMemory

TASK = struct.Struct("<IIII")  # generation, first row, rows, zero
HEADER = struct.Struct("<IIIIQ")  # of a report: kind, generation, first row, rows, length of its content
READY, DONE, FAILED, BROKEN = range(4)  # kinds of reports

PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>
LOOK = 0.5  # seconds between two looks at whether the pool is still there, where the system does not tell


@dataclass(frozen=True)
class WorkerSetup:
    """What a worker process is told on its command line, as JSON."""

    slot: int
    tasks: int  # descriptors of pipes and files that it inherits
    reports: int
    memory: int
    objective: int
    length: int  # of the pickled objective, in bytes
    layout: MemoryLayout
    vectorized: bool
    pool: int  # process id
    path: list[str]  # where modules are searched

    def to_json(self) -> str:
        """Return the setup as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WorkerSetup:
        """Return the setup that ``text`` says."""
        fields = json.loads(text)
        return cls(**{**fields, "layout": MemoryLayout(**fields["layout"])})


class Report(NamedTuple):
    """What a worker says about a task, or about itself."""

    kind: int
    generation: int = 0
    first: int = 0
    rows: int = 0
    content: bytes = b""  # values and constraints, or a TaskFailure pickled

    @classmethod
    def read(cls, unread: bytearray) -> Report | None:
        """Take the next report off the front of ``unread``; None if it is not there in full."""
        if len(unread) < HEADER.size:
            return None
        kind, generation, first, rows, length = HEADER.unpack_from(unread)
        end = HEADER.size + length
        if len(unread) < end:
            return None
        content = bytes(unread[HEADER.size : end])
        del unread[:end]
        return cls(kind, generation, first, rows, content)

    def write(self, descriptor: int) -> None:
        """Write the report into a pipe."""
        message = HEADER.pack(*self[:4], len(self.content)) + self.content
        while message:
            message = message[os.write(descriptor, message) :]


def main() -> None:
    """Serve one pool until it goes away. The one argument is a :class:`WorkerSetup`."""
    setup = WorkerSetup.from_json(sys.argv[1])
    _die_with(setup.pool)
    for descriptor in (setup.tasks, setup.reports, setup.memory, setup.objective):
        os.set_inheritable(descriptor, False)  # programs that fun starts shall not keep the pool's pipes open
    try:
        _load_and_serve(setup)
    except BrokenPipeError:  # the pool is gone, and nobody is there to be told
        os._exit(1)


def _load_and_serve(setup: WorkerSetup) -> None:
    memory = SharedMemory(setup.memory, setup.layout)
    try:
        sys.path[:] = setup.path
        with os.fdopen(os.dup(setup.objective), "rb") as file:
            fun, args = pickle.loads(os.pread(file.fileno(), setup.length, 0))
    except BaseException as error:
        Report(BROKEN, content=pickle.dumps(TaskFailure.of(error))).write(setup.reports)
        return
    Report(READY).write(setup.reports)
    serve(setup, memory, fun, args)


def serve(setup: WorkerSetup, memory: SharedMemory, fun: Function, args: tuple[object, ...]) -> None:
    """Take tasks until there are none to come."""
    slot = setup.slot
    while len(record := os.read(setup.tasks, TASK.size)) == TASK.size:
        generation, first, rows, _ = TASK.unpack(record)
        if generation != memory.current[0]:
            continue  # its generation closed without it
        # The order matters to the pool, which reads ``first`` and then ``started``.
        memory.started[slot] = time.monotonic()
        memory.generation[slot] = generation
        memory.first[slot] = first
        x = memory.candidates[first : first + rows].copy()  # fun may keep or alter what it is given
        try:
            if setup.vectorized:
                answers: Answers = call_with_rows(fun, x, args)
            else:
                value, beside = as_answer(fun(x[0], *args))
                answers = np.array([value]), None if beside is None else beside[np.newaxis]
        except BaseException as error:
            kind, content = FAILED, pickle.dumps(TaskFailure.of(error))
        else:
            kind, content = DONE, packed(answers)
        # Through the pipe, not shared memory: a late result must not touch the next generation.
        Report(kind, generation, first, rows, content).write(setup.reports)
        memory.first[slot] = IDLE


def _die_with(pool: int) -> None:
    """Arrange that this process is killed when the one that spawned it ends, however that happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_end_with, args=(pool,), daemon=True).start()
    if os.getppid() != pool:  # it ended before we could ask to be told
        os._exit(1)


def _end_with(pool: int) -> None:
    """End this process, in the middle of an evaluation too, once it is no longer the child of ``pool``."""
    while os.getppid() == pool:
        time.sleep(LOOK)
    os._exit(1)


if __name__ == "__main__":
    main()
