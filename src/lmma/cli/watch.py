"""What watches a run from the command line."""

from __future__ import annotations

import os

from lmma.run.observers import Progress, ProgressLine


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
