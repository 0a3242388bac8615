"""Watching a run: what observers are shown, a thinned record, a log, a callback."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import stat
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

if TYPE_CHECKING:
    from lmma.run.run import Run

Observer = Callable[["Progress"], None]


@dataclass(frozen=True)
class Progress:
    """One run at the end of a generation."""

    evaluations: int
    generation: int
    best_fun: float
    sigma: float
    failures: int
    seconds: float
    step: float = math.nan  # root mean square distance of a candidate from the mean, a coordinate
    popsize: int = 0
    restarts: int = 0
    late: int = 0  # evaluations that were not waited for
    violation: float = math.nan  # the largest of any constraint at the best point; NaN if there is none
    quality: float = 1.0  # agreement of repeated rankings: 1 without noise, or where nobody looked
    repeats: float = 1.0  # evaluations of a candidate, or population in units of the first one
    rate: float = 1.0  # learning rate of the mean
    average_fun: float = math.nan  # fading mean of all values, since noise was found; NaN if there is none


OF_NOISE = {"quality": 1.0, "repeats": 1.0, "rate": 1.0, "average_fun": math.nan}  # where nobody looked
RARE = ("violation", "average_fun")  # NaN where there is nothing to say


class Recorder:
    """Keeps at most ``size`` snapshots of a run, evenly spread over its generations.

    When the record is full every second snapshot is dropped and the stride doubles; the newest is kept
    beside the record, so that a curve always ends where the run did.
    """

    def __init__(self, size: int = 1000) -> None:
        self.size = max(2, size)
        self._kept: list[Progress] = []
        self._last: Progress | None = None
        self._stride = 1
        self._seen = 0

    def __call__(self, progress: Progress) -> None:
        """Take one snapshot."""
        if self._seen % self._stride == 0:
            self._kept.append(progress)
            if len(self._kept) >= self.size:
                self._kept = self._kept[::2]
                self._stride *= 2
        self._seen += 1
        self._last = progress

    @property
    def snapshots(self) -> list[Progress]:
        """The snapshots, oldest first."""
        if self._last is None or (self._kept and self._kept[-1] == self._last):
            return list(self._kept)
        return [*self._kept, self._last]

    def columns(self) -> dict[str, list[Any]]:
        """Return the record as one list for each quantity."""
        rows = [asdict(snapshot) for snapshot in self.snapshots]
        asked = [
            name for name in Progress.__dataclass_fields__ if any(row[name] == row[name] for row in rows)
        ]
        return {name: [row[name] for row in rows] for name in asked}  # what nobody asked for is NaN

    def get_state(self) -> dict[str, Any]:
        """Return the record as named arrays and numbers."""
        state: dict[str, Any] = {
            name: np.array([getattr(snapshot, name) for snapshot in self.snapshots], dtype=np.float64)
            for name in Progress.__dataclass_fields__
        }
        return state | {"kept": len(self._kept), "stride": self._stride, "seen": self._seen}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`."""
        whole = ("evaluations", "generation", "failures", "popsize", "restarts", "late")
        names = list(Progress.__dataclass_fields__)
        if OF_NOISE.keys().isdisjoint(state):  # of a version that did not look for noise
            count = len(state["evaluations"])
            state = state | {name: np.full(count, value) for name, value in OF_NOISE.items()}
        rows = zip(*(state[name].tolist() for name in names), strict=True)
        snapshots = [
            Progress(**{k: int(v) if k in whole else v for k, v in zip(names, row, strict=True)})
            for row in rows
        ]
        self._kept, self._last = snapshots[: int(state["kept"])], snapshots[-1] if snapshots else None
        self._stride, self._seen = int(state["stride"]), int(state["seen"])


class JsonLog:
    """Writes one JSON object a line into a file, at most every ``every`` seconds, and the last one.

    A new run replaces the file; a resumed one goes on with it, without what came after its checkpoint.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: float = 0.2,
        *,
        after: int | None = None,
        more: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.path = os.fspath(path)
        self.every = every
        self.more = more  # what else to write of a run
        self._next = 0.0
        self._last: Progress | None = None
        self._written: Progress | None = None
        self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 (closed by close)
        try:
            _refuse_a_second_writer(self._file, self.path)
            _cut_after(self.path, -math.inf if after is None else after)
        except BaseException:
            self._file.close()
            raise
        self.warning = ""

    def __call__(self, progress: Progress) -> None:
        """Write the run if it is time to."""
        self._last = progress
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self.every
            self._write(progress)

    def close(self, reason: str = "") -> None:
        """Write where the run ended, and for which reason."""
        if self._last is not None and self._last is not self._written:
            self._write(self._last, reason)
        elif self._last is not None and reason:
            self._amend(reason)
        with contextlib.suppress(OSError):
            self._file.close()

    def _write(self, progress: Progress, reason: str = "") -> None:
        record: dict[str, Any] = {
            name: value if math.isfinite(value) else None
            for name, value in asdict(progress).items()
            if not (name in RARE and math.isnan(value))
        }
        record |= self.more()
        if reason:
            record["reason"] = reason
        import json  # not needed by a run without a log

        try:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        except OSError as error:  # a full disk must not end the run
            self.warning = f"log {self.path} could not be written: {error}"
        self._written = progress

    def _amend(self, reason: str) -> None:
        """Add the reason to the last record, which is there already, in one stroke over its last brace."""
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            return
        try:
            with open(self.path, "r+b") as file:
                file.seek(-2, os.SEEK_END)
                if file.read() == b"}\n":
                    file.seek(-2, os.SEEK_END)
                    file.write(f', "reason": "{reason}"}}\n'.encode())
        except OSError as error:
            self.warning = f"log {self.path} could not be written: {error}"


def _refuse_a_second_writer(file: TextIO, path: str) -> None:
    """Raise ValueError if another run writes this log; the system forgets a writer that has ended."""
    try:
        import fcntl  # not everywhere, and not needed by a run without a log
    except ImportError:
        return
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return  # a terminal, a pipe, /dev/null: any number may write there
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"log={path!r} is being written by another run: wait until it has ended, or name another file"
        ) from None
    except OSError:
        pass  # a file system without locks


def _cut_after(path: str, evaluations: float) -> None:
    """Cut a log off after a number of evaluations, and before a last line that was cut short.

    Nothing is written for it: whenever the process is killed, the records are there.
    """
    from lmma.store.untrusted import read_json

    if not os.path.isfile(path):
        return
    end = 0
    with open(path, "rb") as file:
        for line in file:
            try:
                if not (line.endswith(b"\n") and read_json(line)["evaluations"] <= evaluations):
                    break
            except (ValueError, KeyError, TypeError, RecursionError):
                break
            end += len(line)
    if end < os.path.getsize(path):
        os.truncate(path, end)


def calls_back(callback: Callable[..., Any], run: Run) -> Observer:
    """Return an observer that calls ``callback`` as SciPy would."""
    from lmma.run.result import intermediate_result
    from lmma.run.tracker import Tracker

    if isinstance(callback, Tracker):
        from lmma.run.shape import Shape, median_value

        shape = Shape(run)
        return lambda progress: run.interrupts.cut_short(
            callback.take, progress, lambda: median_value(run) | shape()
        )
    try:
        wants_result = list(inspect.signature(callback).parameters) == ["intermediate_result"]
    except (TypeError, ValueError):  # a builtin without a signature
        wants_result = False

    def observe(progress: Progress) -> None:
        if wants_result:
            seen = intermediate_result(run)
            answer = run.interrupts.cut_short(callback, intermediate_result=seen)
        else:
            best = run.counters.best_x
            point: Any = run.strategy.mean.copy() if best is None else best.copy()
            if run.options.space is not None:
                point = run.options.space.decode(point)
            answer = run.interrupts.cut_short(callback, point)
        if answer is True:
            raise StopIteration

    return observe
