"""Run logs: one JSON object per line, with statistics of the search and the best values."""

from __future__ import annotations

import contextlib
import math
import os
import stat
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
import numpy.typing as npt

from lmma.run.observers import Progress
from lmma.space import Space, Tree

if TYPE_CHECKING:
    from lmma.layers.bounds import Box
    from lmma.methods import Strategy
    from lmma.run.state import RunState

RARE = ("violation", "average_fun", "slopes")  # omitted if NaN
NAMED = 1000  # maximum number of variables whose best values are written
SHOWN = 8  # evenly spaced coordinates whose mean and step are written
EXTREME = 3  # coordinates with the shortest steps, and with the longest
MAX_SAMPLED = 10_000  # evenly spaced coordinates to examine
SHARE = 50  # search columns may take 1/SHARE of the run time
ALLOWANCE = 0.1  # and this number of seconds, so that a short run has them too
FIRST = 100  # generations that are always written: a short run needs more than two records


class JsonLog:
    """Writes one JSON object per line to a file, at most every ``every`` seconds, and at the end.

    All of the first generations are written. A new run replaces the file. A resumed run appends to it, after
    removing records that are newer than its checkpoint. The first record of each process has ``run``, a
    description of the run.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: float = 0.2,
        *,
        after: int | None = None,
        more: Callable[[bool], dict[str, Any]] = lambda final: {},
        run: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self._place = os.path.abspath(path)  # fun may change the current folder
        self.every = every
        self.more = more  # further columns; all of them if called with True
        self._run = run
        self._names: set[str] = set()  # of the last record
        self._next = 0.0
        self._last: Progress | None = None
        self._written: Progress | None = None
        try:
            self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 (closed by close)
        except OSError as error:
            reason = error.strerror or str(error)
            reason = reason[0].lower() + reason[1:]
            raise type(error)(f"log: {self.path} cannot be written: {reason}") from None
        try:
            _check_only_writer(self._file, self.path)
            _truncate_after(self.path, -math.inf if after is None else after)
        except BaseException:
            self._file.close()
            raise
        self.warning = ""

    def __call__(self, progress: Progress) -> None:
        """Write a record if one is due."""
        self._last = progress
        now = time.monotonic()
        if progress.generation <= FIRST or now >= self._next:
            self._next = now + self.every
            self._write(progress)

    def close(self, reason: str = "") -> None:
        """Write the last record with the reason why the run ended, and close the file."""
        if self._last is not None and self._last is not self._written:
            self._write(self._last, reason)
        elif self._last is not None and reason:
            self._amend(reason)
        with contextlib.suppress(OSError):
            self._file.close()

    def _write(self, progress: Progress, reason: str = "") -> None:
        record: dict[str, Any] = {
            name: value if math.isfinite(value) else None
            for name, value in progress._asdict().items()
            if not (name in RARE and math.isnan(value))
        }
        record |= self.more(bool(reason))
        if self._run is not None:
            record["run"], self._run = dict(self._run), None
        if reason:
            record["reason"] = reason
        self._names = set(record)
        import json  # not needed by a run without a log

        try:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        except OSError as error:  # a full disk must not end the run
            self.warning = f"cannot write log {self.path}: {error}"
        self._written = progress

    def _amend(self, reason: str) -> None:
        """Add the reason, and columns it lacks, to the last record by overwriting its brace in one write."""
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            return
        import json

        missing = {name: value for name, value in self.more(True).items() if name not in self._names}
        try:
            with open(self._place, "r+b") as file:
                file.seek(-2, os.SEEK_END)
                if file.read() == b"}\n":
                    file.seek(-2, os.SEEK_END)
                    file.write(f", {json.dumps({'reason': reason} | missing)[1:]}\n".encode())
        except OSError as error:
            self.warning = f"cannot write log {self.path}: {error}"


def _check_only_writer(file: TextIO, path: str) -> None:
    """Lock the log; raise ValueError if another run is writing it."""
    from lmma._files import lock_open_file

    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return  # a terminal, a pipe or /dev/null may have several writers
    try:
        lock_open_file(file.fileno())
    except BlockingIOError:
        raise ValueError(
            f"log={path!r} is being written by another run: wait until it has finished, or use another file"
        ) from None
    except OSError:
        pass  # a file system without locks


def _truncate_after(path: str, evaluations: float) -> None:
    """Remove records after a number of evaluations, and an incomplete last line.

    The file is truncated in place, so no record is lost if the process is killed.
    """
    from lmma._files import read_json

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


# Further columns


class Limits(NamedTuple):
    """Lower bounds and widths of the coordinates of a method; a width of 0 is replaced by 1."""

    lower: npt.NDArray[np.float64]
    width: npt.NDArray[np.float64]


class SearchColumns:
    """Computes columns about the search, using at most 1/``SHARE`` of the run time.

    Parameters
    ----------
    state : RunState
        The run.
    space : Space, Tree or None
        Names of the coordinates.
    box : Box or None
        Bounds; if all are finite, lengths and means are relative to them.
    """

    def __init__(self, state: RunState, space: Space | Tree | None, box: Box | None = None) -> None:
        import lmma.numerics.metric  # noqa: F401 (imports SciPy before time is measured)

        self.state, self.space, self.limits = state, space, finite_limits(state.strategy, box)
        self._began = time.monotonic()
        self._spent = 0.0

    def __call__(self, final: bool = False) -> dict[str, Any]:
        """Return the median value, and if time permits or if ``final`` also axis ratio, steps and means."""
        median = median_value(self.state.strategy)
        if not final and self._spent > ALLOWANCE + (time.monotonic() - self._began) / SHARE:
            return median
        began = time.thread_time()
        seen: dict[str, Any] = {}
        with contextlib.suppress(ValueError, ArithmeticError, MemoryError):  # a matrix that is not finite
            seen = search_columns(self.state.strategy, self.space, self.limits)
        self._spent += time.thread_time() - began
        return median | seen


def finite_limits(strategy: Strategy, box: Box | None) -> Limits | None:
    """Return the bounds of all coordinates that are not choices, or None if one of them is unbounded."""
    if box is None:
        return None
    lower, upper = box.lower.astype(np.float64), box.upper.astype(np.float64)
    if strategy.choices is not None:
        lower, upper = lower[strategy.choices.numbers], upper[strategy.choices.numbers]
    width = upper - lower
    return Limits(lower, np.where(width > 0, width, 1.0)) if np.all(np.isfinite(width)) else None


def search_columns(
    strategy: Strategy, space: Space | Tree | None, limits: Limits | None = None
) -> dict[str, Any]:
    """Return axis ratio, steps and means of a search; empty for a strategy without a metric.

    With ``limits``, lengths are relative to the widths of the coordinates and means are positions between
    the bounds, 0 to 1, so that coordinates in different units can be compared.
    """
    choices = strategy.choices  # these have probabilities; the method searches the other coordinates
    places = None if choices is None else choices.numbers
    metric = strategy.method.hess_inv()
    if metric is None or not hasattr(metric, "scaled"):
        return {}
    n = strategy.method.n
    mean = strategy._inside(strategy.method.mean)
    mean = mean if places is None else mean[places]
    if limits is not None:
        metric, mean = metric.scaled(1 / limits.width), (mean - limits.lower) / limits.width

    def name(column: int) -> str:
        place = column if places is None else int(places[column])
        return coordinate_name(space, place)

    columns = np.linspace(0, n - 1, min(n, MAX_SAMPLED)).astype(np.intp)
    steps = strategy.sigma * metric.deviations(columns)
    ratio = metric.axis_ratio()
    if not (np.all(np.isfinite(steps)) and math.isfinite(ratio)):
        return {}
    order = np.argsort(steps, kind="stable")
    extremes = min(EXTREME, n // 2)
    shown = np.unique(np.linspace(0, len(columns) - 1, min(len(columns), SHOWN)).astype(np.intp))
    return {
        "axis_ratio": _six_digits(ratio),
        "steps": [_six_digits(q) for q in np.quantile(steps, [0, 0.25, 0.5, 0.75, 1])],
        "shortest": {name(columns[k]): _six_digits(steps[k]) for k in order[:extremes]},
        "longest": {name(columns[k]): _six_digits(steps[k]) for k in order[::-1][:extremes]},
        "coordinates": {
            name(columns[k]): [_six_digits(mean[columns[k]]), _six_digits(steps[k])] for k in shown
        },
    }


def median_value(strategy: Strategy) -> dict[str, float]:
    """Return the median value of the last generation; empty if all evaluations failed."""
    values = strategy.ranked_values
    if not len(values):
        return {}
    median = values.item((len(values) - 1) // 2)
    return {"median_fun": median} if math.isfinite(median) else {}


def _six_digits(value: float) -> float:
    """Return a number rounded to six digits: the log is for reading, not for resuming."""
    return float(f"{value:.6g}")


def coordinate_name(space: Space | Tree | None, place: int) -> str:
    """Return the name of a coordinate of the vector."""
    if space is None:
        return f"x[{place}]"
    if isinstance(space, Space):
        return space.labels[place]
    for path, part in space.slices.items():
        if part.start <= place < part.stop:
            return path if part.stop - part.start == 1 else f"{path}[{place - part.start}]"
    raise IndexError(place)


def best_values(best: Any, space: Space | Tree | None) -> dict[str, Any]:
    """Return the best point so far: values by name, and relative positions between their limits, 0 to 1.

    Empty without a space, or with more than ``NAMED`` variables.
    """
    if not isinstance(space, Space) or best is None or space.n > NAMED:
        return {}
    positions = dict(zip(space.labels, space.positions(best).round(6).tolist(), strict=True))
    return {"x": as_json(space.decode(best)), "positions": positions}


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values converted for JSON: lists for arrays, ``repr`` for unknown types."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
