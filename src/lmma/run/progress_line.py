"""A run in one line: what matters most stays, however narrow the terminal is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TextIO

from lmma.output.progress import StatusLine, readable
from lmma.run.observers import Progress


class ProgressLine:
    """Shows a run on a stream: one line renewed in place on a terminal, a line now and then elsewhere.

    Parameters
    ----------
    maxfevals, maxtime : optional
        The budget: the time left follows from it.
    stream : text stream, optional
        Where to write; standard error by default.
    begun : tuple of int and float
        Evaluations and seconds of earlier processes: a rate is that of this one.
    grows : bool
        Whether noise is treated by a larger population, and not by more evaluations of a candidate.
    """

    def __init__(
        self,
        maxfevals: int | None = None,
        stream: TextIO | None = None,
        *,
        maxtime: float | None = None,
        begun: tuple[int, float] = (0, 0.0),
        grows: bool = False,
    ) -> None:
        self.status = StatusLine(stream)
        self.maxfevals = maxfevals
        self.maxtime = maxtime
        self.begun = begun
        self.grows = grows
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show the run if it is time to."""
        self._last = progress
        if self.status.due():
            self.status.show(self.line(progress, self.status.width))

    def close(self) -> None:
        """Show where the run ended."""
        if self._last is not None:
            self.status.show(self.line(self._last, self.status.width))
            self.status.close()

    def line(self, progress: Progress, width: int | None = None) -> str:
        """Return the run in one line, without what matters least where ``width`` signs are too few."""
        parts = list(self._parts(progress))
        while width is not None and len(parts) > 1 and _length(parts) > width:
            parts.remove(max(parts, key=lambda part: part[0]))
        return "  ".join(text for _, text in parts)

    def _parts(self, progress: Progress) -> Iterator[tuple[int, str]]:
        """Yield what there is to say, each with a number that is the larger the sooner it is left out."""
        share = ""
        if self.maxfevals is not None:
            share = f" ({min(1.0, progress.evaluations / self.maxfevals):.0%})"
        yield 0, f"{progress.evaluations:>9,} evaluations{share}"
        if progress.average_fun == progress.average_fun:  # then the best value is luck
            yield 1, f"average {progress.average_fun:.2e}"
            yield 10, f"luckiest {progress.best_fun:.2e}"
        else:
            yield 1, f"best {progress.best_fun:.6e}"
        if progress.violation > 0:
            yield 3, f"violation {progress.violation:.2e}"
        if progress.failures:
            yield 2, f"{progress.failures:,} failed"
        rate = self._rate(progress)
        left = self._left(progress, rate)
        if left is not None:
            yield 2, f"{readable(left)} left" if left > 0 else "done"
        if progress.restarts:
            yield 4, f"restart {progress.restarts}"
        yield 6, f"{rate:,.0f}/s" if rate >= 10 or rate == 0 else f"{rate:.2g}/s"
        yield 7, f"sigma {progress.sigma:.2e}"
        if progress.quality < 0.8 or progress.rate < 1.0 or progress.repeats > 1.0:
            yield 5, f"noise: quality {max(0.0, progress.quality):.2f}"
            if progress.rate < 1.0:
                yield 9, f"rate {progress.rate:.2g}"
            if progress.repeats > 1.0:
                what = "times the candidates" if self.grows else "evaluations a candidate"
                yield 8, f"{progress.repeats:.3g} {what}"

    def _rate(self, progress: Progress) -> float:
        """Return evaluations a second, of this process."""
        evaluations, seconds = self.begun
        passed = progress.seconds - seconds
        return (progress.evaluations - evaluations) / passed if passed > 0 else 0.0

    def _left(self, progress: Progress, rate: float) -> float | None:
        """Return the seconds until a budget ends the run; None where there is none."""
        left = math.inf if self.maxtime is None else self.maxtime - progress.seconds
        if self.maxfevals is not None and rate > 0:
            left = min(left, (self.maxfevals - progress.evaluations) / rate)
        return max(0.0, left) if left < math.inf else None


def _length(parts: list[tuple[int, str]]) -> int:
    return sum(len(text) for _, text in parts) + 2 * (len(parts) - 1)
