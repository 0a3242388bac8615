"""A run sent to a tracking tool: numbers by name, now and then, and never at the run's expense."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from lmma.run.observers import Progress

PAUSE = (
    10.0  # after a failure it waits this many times as long as the failure took, and twice as long each time
)


class Tracker(ABC):
    """A ``callback=`` that sends a run to a tool for watching many runs.

    A tool that fails, a full disk, a network that is gone: the run goes on, the first failure is said by
    ``logging`` and all of them are counted.

    Parameters
    ----------
    every : float
        Seconds between two points at least. The end of a run is always sent.
    prefix : str
        Begins all names.

    Attributes
    ----------
    sent, failed : int
        How many points were sent, and how many could not be.
    problem : str
        The last failure in words; empty if there was none.
    """

    def __init__(self, every: float, prefix: str) -> None:
        if not (isinstance(every, int | float) and every >= 0):
            raise ValueError(f"every must be a number of seconds, 0 or more, got {every!r}")
        self.every, self.prefix = float(every), prefix
        self.sent = self.failed = 0
        self.problem = ""
        self._due = -math.inf
        self._pause = 1.0
        self._waiting: tuple[dict[str, float], int] | None = None  # what the end of the run is to send

    @abstractmethod
    def send(self, values: Mapping[str, float], step: int) -> None:
        """Send numbers by name, after ``step`` evaluations."""

    def finish(self) -> None:  # noqa: B027 (most have nothing to see to)
        """See to it that everything is where it belongs; called when a run ends."""

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        """Send what an intermediate result knows; a run of lmma calls :meth:`take`, which knows more."""
        now = intermediate_result
        values = {"value/best": now.fun, "search/sigma": now.get("sigma", math.nan),
                  "run/failures": now.get("failures", math.nan)}  # fmt: skip
        self._offer(values, int(now.get("nfev", self.sent)), dict)

    def take(self, progress: Progress, more: Callable[[], Mapping[str, Any]]) -> None:
        """Send the end of a generation if it is time to; ``more`` looks closer, which costs something."""
        self._offer(_named(progress), progress.evaluations, lambda: _shape(more()))

    def ended(self) -> None:
        """Send the last generation, if it has not been sent."""
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
        except Exception as error:  # whatever a tool raises: it must not end the run
            if not self.failed:
                logging.getLogger("lmma").warning(
                    "%s failed, the run goes on without it: %s: %s",
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
    """Return the numbers of a generation, by the names that tools group them by."""
    values = {
        "value/best": progress.best_fun,
        "value/average": progress.average_fun,  # NaN where there is no noise
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
        "constraints/violation": progress.violation,  # NaN where there are none
    }
    if progress.seconds > 0:
        values["run/evaluations_per_second"] = progress.evaluations / progress.seconds
    return values


def _shape(seen: Mapping[str, Any]) -> dict[str, float]:
    """Return what a closer look has seen, as numbers by name."""
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
