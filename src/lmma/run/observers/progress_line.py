"""The progress line; on a narrow terminal, less important parts are dropped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TextIO

from lmma._text import readable_time
from lmma.output.progress import StatusLine
from lmma.run.observers import Progress


class ProgressLine:
    """Shows progress: one line updated in place on a terminal, occasional lines elsewhere.

    Parameters
    ----------
    maxfevals, maxtime : optional
        The budget, from which the remaining time is estimated.
    stream : text stream, optional
        Output stream; standard error by default.
    begun : tuple of int and float
        Evaluations and seconds of earlier processes, excluded from the rate.
    grows : bool
        Whether noise is treated by a larger population instead of more evaluations per candidate.
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
        self.ended = False
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show the progress if an update is due."""
        self._last = progress
        if self.status.due():
            self.status.show(self.line(progress, self.status.width))

    def close(self, *, ended: bool = False) -> None:
        """Show the last progress; ``ended`` is whether the run is complete."""
        if self._last is not None:
            self.ended = ended
            self.status.show(self.line(self._last, self.status.width))
            self.status.close()

    def line(self, progress: Progress, width: int | None = None) -> str:
        """Return the progress in one line; if it exceeds ``width``, drop the least important parts."""
        parts = list(self._parts(progress))
        while width is not None and len(parts) > 1 and _length(parts) > width:
            parts.remove(max(parts, key=lambda part: part[0]))
        return "  ".join(text for _, text in parts)

    def _parts(self, progress: Progress) -> Iterator[tuple[int, str]]:
        """Yield the parts of the line, each with a number; those with larger numbers are dropped first."""
        share = ""
        if self.maxfevals is not None:
            share = f" ({min(1.0, progress.evaluations / self.maxfevals):.0%})"
        yield 0, f"{progress.evaluations:>9,} evaluations{share}"
        if progress.average_fun == progress.average_fun:  # with noise, the best value is misleading
            yield 1, f"average {progress.average_fun:.2e}"
            yield 10, f"best observed {progress.best_fun:.2e}"
        else:
            best = f"{progress.best_fun:.6e}" if math.isfinite(progress.best_fun) else "none"
            yield 1, f"best {best}"
        if progress.violation > 0:
            yield 3, f"violation {progress.violation:.2e}"
        if progress.failures:
            yield 2, f"{progress.failures:,} failed"
        rate = self._rate(progress)
        left = self._left(progress, rate)
        if left is not None:
            yield 2, f"{readable_time(left)} left" if left > 0 and not self.ended else "done"
        if progress.restarts:
            yield 4, f"restart {progress.restarts}"
        yield 6, f"{rate:,.0f}/s" if rate >= 10 or rate == 0 else f"{rate:.2g}/s"
        yield 7, f"sigma {progress.sigma:.2e}"
        if progress.quality < 0.8 or progress.rate < 1.0 or progress.repeats > 1.0:
            yield 5, f"noise: quality {max(0.0, progress.quality):.2f}"
            if progress.rate < 1.0:
                yield 9, f"rate {progress.rate:.2g}"
            if progress.repeats > 1.0:
                what = "times the candidates" if self.grows else "evaluations per candidate"
                yield 8, f"{progress.repeats:.3g} {what}"

    def _rate(self, progress: Progress) -> float:
        """Return the evaluations per second of this process."""
        evaluations, seconds = self.begun
        passed = progress.seconds - seconds
        return (progress.evaluations - evaluations) / passed if passed > 0 else 0.0

    def _left(self, progress: Progress, rate: float) -> float | None:
        """Return the estimated seconds until a budget ends the run; None without a budget."""
        left = math.inf if self.maxtime is None else self.maxtime - progress.seconds
        if self.maxfevals is not None and rate > 0:
            left = min(left, (self.maxfevals - progress.evaluations) / rate)
        return max(0.0, left) if left < math.inf else None


def _length(parts: list[tuple[int, str]]) -> int:
    return sum(len(text) for _, text in parts) + 2 * (len(parts) - 1)
