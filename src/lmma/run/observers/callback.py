"""Callbacks: functions as in SciPy, and trackers for experiment-tracking tools."""

from __future__ import annotations

import inspect
import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from lmma.layers.bounds import Box
    from lmma.run.interrupts import Interrupts
    from lmma.run.observers import Observer, Progress
    from lmma.run.state import RunState
    from lmma.space import Space, Tree

PAUSE = 10.0  # pause after a failure, relative to its duration; the minimum pause doubles each time


class Tracker(ABC):
    """A ``callback=`` that sends the progress of a run to an experiment-tracking tool.

    If the tool fails (a full disk, a lost connection), the run continues. The first failure is reported with
    ``logging``, and all failures are counted.

    Parameters
    ----------
    every : float
        Minimum number of seconds between two points. The end of a run is always sent.
    prefix : str
        Prefix of all names.

    Attributes
    ----------
    sent, failed : int
        Number of points sent, and of failures.
    problem : str
        Message of the last failure; empty if there was none.
    """

    def __init__(self, every: float, prefix: str) -> None:
        if not (isinstance(every, int | float) and every >= 0):
            raise ValueError(f"every must be a number of seconds >= 0, got {every!r}")
        self.every, self.prefix = float(every), prefix
        self.sent = self.failed = 0
        self.problem = ""
        self._due = -math.inf
        self._pause = 1.0
        self._waiting: tuple[dict[str, float], int] | None = None  # sent at the end of the run

    @abstractmethod
    def send(self, values: Mapping[str, float], step: int) -> None:
        """Send numbers by name, after ``step`` evaluations."""

    def finish(self) -> None:  # noqa: B027 (optional)
        """Flush pending data; called when a run ends."""

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        """Send an intermediate result; a run of lmma calls :meth:`take` instead, with more values."""
        now = intermediate_result
        values = {"value/best": now.fun, "search/sigma": now.get("sigma", math.nan),
                  "run/failures": now.get("failures", math.nan)}  # fmt: skip
        self._offer(values, int(now.get("nfev", self.sent)), dict)

    def take(self, progress: Progress, more: Callable[[], Mapping[str, Any]]) -> None:
        """Send the progress if due; ``more`` computes further columns and is called only then."""
        self._offer(_named(progress), progress.evaluations, lambda: _search_values(more()))

    def ended(self) -> None:
        """Send the last generation if it is still pending."""
        if self._waiting is not None:
            self._try(self.send, *self._waiting)
            self._waiting = None
        self._try(self.finish)

    def _offer(self, values: dict[str, float], step: int, more: Callable[[], dict[str, float]]) -> None:
        now = time.monotonic()
        if now < self._due:
            self._waiting = (self._prefixed(values), step)
            return
        self._waiting = None
        self._due = now + self.every
        if self._try(self.send, self._prefixed(values | more()), step):
            self.sent += 1

    def _prefixed(self, values: Mapping[str, float]) -> dict[str, float]:
        return {f"{self.prefix}{name}": float(v) for name, v in values.items() if math.isfinite(v)}

    def _try(self, work: Callable[..., None], *args: Any) -> bool:
        began = time.monotonic()
        try:
            work(*args)
        except Exception as error:  # a failing tool must not end the run
            if not self.failed:
                logging.getLogger("lmma").warning(
                    "%s failed; the run continues without it: %s: %s",
                    type(self).__name__,
                    type(error).__name__,
                    error,
                )
            self.failed += 1
            self.problem = f"{type(error).__name__}: {error}"
            self._due = time.monotonic() + max(self._pause, PAUSE * (time.monotonic() - began))
            self._pause *= 2
            return False
        self._pause = 1.0
        return True


def _named(progress: Progress) -> dict[str, float]:
    """Return the values of a generation under names that tracking tools group by prefix."""
    values = {
        "value/best": progress.best_fun,
        "value/average": progress.average_fun,  # NaN without noise
        "search/sigma": progress.sigma,
        "search/step": progress.step,
        "search/popsize": progress.popsize,
        "run/generation": progress.generation,
        "run/failures": progress.failures,
        "run/restarts": progress.restarts,
        "run/seconds": progress.seconds,
        "noise/quality": progress.quality,
        "noise/repeats": progress.repeats,
        "noise/rate": progress.rate,
        "constraints/violation": progress.violation,  # NaN without constraints
    }
    if progress.seconds > 0:
        values["run/evaluations_per_second"] = progress.evaluations / progress.seconds
    return values


def _search_values(seen: Mapping[str, Any]) -> dict[str, float]:
    """Return the log columns about the search as named numbers."""
    values: dict[str, float] = {}
    if "median_fun" in seen:
        values["value/median"] = seen["median_fun"]
    if "axis_ratio" in seen:
        values["search/axis_ratio"] = seen["axis_ratio"]
        least, _, median, _, most = seen["steps"]
        values |= {"scales/shortest": least, "scales/median": median, "scales/longest": most}
        for name, (mean, step) in seen["coordinates"].items():
            values |= {f"mean/{name}": mean, f"scales/{name}": step}
    return values


def callback_observer(
    callback: Callable[..., Any],
    state: RunState,
    space: Space | Tree | None,
    interrupts: Interrupts,
    box: Box | None = None,
) -> Observer:
    """Return an observer that calls ``callback`` as SciPy does."""
    if isinstance(callback, Tracker):
        from lmma.run.observers.json_log import SearchColumns

        columns = SearchColumns(state, space, box)
        return lambda progress: interrupts.call_interruptibly(callback.take, progress, columns)
    try:
        wants_result = list(inspect.signature(callback).parameters) == ["intermediate_result"]
    except (TypeError, ValueError):  # a builtin without a signature
        wants_result = False

    def observe(progress: Progress) -> None:
        if wants_result:
            from lmma.run.result import intermediate_result

            seen = intermediate_result(state, space)
            answer = interrupts.call_interruptibly(callback, intermediate_result=seen)
        else:
            best = state.counters.best_x
            point: Any = state.strategy.mean.copy() if best is None else best.copy()
            answer = interrupts.call_interruptibly(callback, point if space is None else space.decode(point))
        if answer is True:
            raise StopIteration

    return observe
