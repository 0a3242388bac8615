"""What watches a run from the command line."""

from __future__ import annotations

import os

from lmma.history import Progress, ProgressLine

PATIENCE = 5  # generations without a single value, after which an objective is taken to be broken


class FittedLine(ProgressLine):
    """A line of progress no wider than the terminal: a wrapped line cannot be renewed in place."""

    def line(self, progress: Progress) -> str:
        """Return the run in one line, cut where the terminal ends."""
        text = super().line(progress)
        if not self.live:
            return text
        try:
            width = os.get_terminal_size(self.stream.fileno()).columns
        except (OSError, ValueError):  # a stream that merely says it is a terminal
            width = 0
        return text[: width - 1] if width > 0 else text  # a terminal of unknown size has 0 columns


class GivesUp:
    """Ends a run whose objective has failed on every candidate of ``PATIENCE`` generations in a row."""

    def __init__(self) -> None:
        self._evaluations = 0
        self._failures = 0
        self._barren = 0

    def __call__(self, progress: Progress) -> None:
        """Count another generation."""
        evaluations = progress.evaluations - self._evaluations
        failures = progress.failures - self._failures
        self._evaluations, self._failures = progress.evaluations, progress.failures
        self._barren = self._barren + 1 if failures == evaluations else 0
        if self._barren >= PATIENCE:
            raise StopIteration
