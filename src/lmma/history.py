"""Watching a run: what observers are shown, a thinned record, and a line of progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TextIO

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
        return {name: [row[name] for row in rows] for name in Progress.__dataclass_fields__}


class ProgressLine:
    """Shows a run on a stream: one line renewed in place on a terminal, a line now and then elsewhere."""

    def __init__(self, maxfevals: int | None = None, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.maxfevals = maxfevals
        self.live = self.stream.isatty()
        self.every = 0.1 if self.live else 5.0  # seconds between two lines
        self._next = 0.0
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show the run if it is time to."""
        self._last = progress
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self.every
            self._show(progress)

    def close(self) -> None:
        """Show where the run ended."""
        if self._last is not None:
            self._show(self._last)
            if self.live:
                self.stream.write("\n")
                self.stream.flush()

    def _show(self, progress: Progress) -> None:
        text = self.line(progress)
        self.stream.write(f"\r\x1b[K{text}" if self.live else f"{text}\n")
        self.stream.flush()

    def line(self, progress: Progress) -> str:
        """Return the run in one line."""
        rate = progress.evaluations / progress.seconds if progress.seconds > 0 else 0.0
        parts = [
            f"{progress.evaluations:>9,} evaluations",
            f"best {progress.best_fun:.6e}",
            f"sigma {progress.sigma:.2e}",
            f"{rate:,.0f}/s",
        ]
        if self.maxfevals is not None:
            parts[0] += f" ({min(1.0, progress.evaluations / self.maxfevals):.0%})"
            if rate > 0:
                parts.append(f"{max(0.0, self.maxfevals - progress.evaluations) / rate:,.0f} s to the budget")
        if progress.failures:
            parts.append(f"{progress.failures:,} failed")
        return "  ".join(parts)
