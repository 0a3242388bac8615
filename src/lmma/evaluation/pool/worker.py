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
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from lmma.evaluation.base import as_number, as_numbers
from lmma.evaluation.pool.shared_memory import IDLE, Arena, Shape

TASK = struct.Struct("<IIII")  # generation, first row, rows, zero
REPORT = struct.Struct("<IIIIQ")  # what (below), generation, first row, rows, length of the text after it
READY, DONE, FAILED, BROKEN = range(4)

PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>


def main() -> None:
    """Serve one pool until it goes away. The one argument is JSON; see ``Pool._hire``."""
    setup = json.loads(sys.argv[1])
    _die_with(setup["pool"])
    tasks, reports = setup["tasks"], setup["reports"]
    for descriptor in (tasks, reports, setup["arena"], setup["objective"]):
        os.set_inheritable(descriptor, False)  # programs that fun starts shall not keep the pool's pipes open
    arena = Arena(setup["arena"], Shape(*setup["shape"]))
    try:
        sys.path[:] = setup["path"]
        with os.fdopen(os.dup(setup["objective"]), "rb") as file:
            fun, args = pickle.loads(os.pread(file.fileno(), setup["length"], 0))
    except BaseException as error:
        _report(reports, BROKEN, 0, 0, 0, described(error))
        return
    _report(reports, READY, 0, 0, 0)
    serve(arena, setup["slot"], tasks, reports, fun, args, vectorized=setup["vectorized"])


def serve(
    arena: Arena,
    slot: int,
    tasks: int,
    reports: int,
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    vectorized: bool,
) -> None:
    """Take tasks until there are none to come."""
    while len(record := os.read(tasks, TASK.size)) == TASK.size:
        generation, first, rows, _ = TASK.unpack(record)
        if generation != arena.current[0]:
            continue  # its generation closed without it
        # The order matters to the pool, which reads ``first`` and then ``started``.
        arena.started[slot] = time.monotonic()
        arena.generation[slot] = generation
        arena.first[slot] = first
        x = arena.candidates[first : first + rows].copy()  # fun may keep or alter what it is given
        try:
            if vectorized:
                values = as_numbers(fun(x, *args), rows)
            else:
                values = np.array([as_number(fun(x[0], *args))])
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            _report(reports, FAILED, generation, first, rows, described(error))
        else:
            # Through the pipe, not the arena: a late result must not touch the next generation.
            _report(reports, DONE, generation, first, rows, values.tobytes())
        arena.first[slot] = IDLE


def _report(reports: int, what: int, generation: int, first: int, rows: int, text: bytes = b"") -> None:
    message = REPORT.pack(what, generation, first, rows, len(text)) + text
    while message:
        message = message[os.write(reports, message) :]


def described(error: BaseException) -> bytes:
    """Return the kind, message and traceback of an error and, if it can be pickled, the error itself."""
    try:
        itself = pickle.dumps(error)
        pickle.loads(itself)  # some exceptions can be pickled but not made again
    except Exception:
        itself = b""
    trace = "".join(traceback.format_exception(error))
    return pickle.dumps((type(error).__name__, str(error), trace, itself))


def _die_with(pool: int) -> None:
    """Arrange that this process is killed when the one that hired it ends, however that happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != pool:  # it ended before we could ask to be told
        os._exit(1)


if __name__ == "__main__":
    main()
