"""What watches a run from the command line."""

from __future__ import annotations

import shutil

from lmma.history import Progress, ProgressLine

PATIENCE = 5  # generations without a single value, after which an objective is taken to be broken


class FittedLine(ProgressLine):
    """A line of progress no wider than the terminal: a wrapped line cannot be renewed in place."""

    def line(self, progress: Progress) -> str:
        """Return the run in one line, cut where the terminal ends."""
        text = super().line(progress)
        return text[: shutil.get_terminal_size().columns - 1] if self.live else text


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
