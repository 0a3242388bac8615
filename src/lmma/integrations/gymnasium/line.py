"""A line of progress for people who train: episodes, steps, and the mean policy's reward."""

from __future__ import annotations

from typing import TextIO, final

from lmma.integrations.gymnasium.training import Training
from lmma.output.progress import StatusLine
from lmma.run.observers import Progress


@final
class TrainingLine:
    """Shows a training on a stream: one line renewed on a terminal, a line now and then elsewhere."""

    def __init__(
        self, training: Training, maxfevals: int | None = None, stream: TextIO | None = None
    ) -> None:
        self.training, self.maxfevals = training, maxfevals
        self.status = StatusLine(stream)
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show the training if it is time to."""
        self._last = progress
        if self.status.due():
            self.status.show(self.line(progress))

    def close(self) -> None:
        """Show where it ended."""
        if self._last is not None:
            self.status.show(self.line(self._last))
            self.status.close()

    def line(self, progress: Progress) -> str:
        """Return the training in one line."""
        training = self.training
        evaluate, curve = training.evaluate, training.curve
        share = ""
        if self.maxfevals is not None:
            share = f" ({min(1.0, progress.evaluations / self.maxfevals):.0%})"
        parts = [f"{evaluate.count:>7,} episodes{share}", f"{evaluate.steps:,} steps"]
        if curve["reward"]:
            goal = "" if training.threshold is None else f" of {training.threshold:g}"
            parts.append(f"mean policy {curve['reward'][-1]:.1f}{goal}")
        parts += [f"best candidate {-progress.best_fun:.1f}", f"sigma {progress.sigma:.2e}"]
        if progress.seconds > 0:
            parts.append(f"{evaluate.steps / progress.seconds:,.0f} steps/s")
        if progress.failures:
            parts.append(f"{progress.failures:,} failed")
        return "  ".join(parts)
