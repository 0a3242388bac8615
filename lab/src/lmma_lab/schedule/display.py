"""Progress of experiments: one status line on a terminal, plain lines in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from lmma._text import readable_time
from lmma.output.progress import StatusLine, bar
from lmma_lab.store import Record
from lmma_lab.tasks import Task

PIPE_INTERVAL = 60.0  # seconds between progress lines in a pipe


@dataclass(frozen=True)
class RunningTask:
    """A task in progress: seconds so far, evaluations and best value."""

    task: Task
    seconds: float
    evaluations: int = 0
    best: float = float("nan")

    def text(self) -> str:
        """Return the task with its progress."""
        if self.evaluations == 0:
            return self.task.label
        return f"{self.task.label}: {compact(self.evaluations)} evaluations, f = {self.best:.1e}"


class Display:
    """Show the finished tasks, those in progress, and the estimated remaining time."""

    def __init__(self, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.line = StatusLine(stream, every=PIPE_INTERVAL)
        self.total, self.done = total, done
        self._waiting = False

    @property
    def live(self) -> bool:
        """True if the status line is updated in place on a terminal."""
        return self.line.live

    def finished(self, task: Task, record: Record, left: float) -> None:
        """Count a finished task; in a pipe, print its result."""
        self.done += 1
        if not self.live:
            self._say(f"{task.label}: {describe_result(record)}; {remaining(left)}")

    def failed(self, task: Task, reason: str) -> None:
        """Print that a task failed."""
        self._say(f"{task.label}: FAILED, {reason}")

    def due(self) -> bool:
        """Return True if :meth:`show` should be called again."""
        return self.line.due()

    def show(self, running: Sequence[RunningTask], left: float, passed: float = 0.0) -> None:
        """Update the status line, whose bar is a share of time; in a pipe, print the tasks in progress."""
        texts = [item.text() for item in running]
        if self.live:
            share = passed / (passed + left) if passed + left > 0 else 1.0
            self.line.show(
                " | ".join([f"{bar(share, 20)} {self.done}/{self.total}, {remaining(left)}", *texts])
            )
        elif running and passed >= PIPE_INTERVAL:
            self.line.show(f"[{self.done}/{self.total}] running: {'; '.join(texts)}; {remaining(left)}")
        else:
            self.line.wait()

    def waiting(self, others: int) -> None:
        """Print once that another process runs the remaining tasks."""
        if not self._waiting:
            self._waiting = True
            self.line.print_line(
                f"another process is running {others} of the tasks in this store; waiting for it"
            )

    def close(self) -> None:
        """Erase the status line."""
        self.line.close(erase=True)

    def _say(self, text: str) -> None:
        self.line.print_line(f"[{self.done}/{self.total}] {text}")


def describe_result(record: Record) -> str:
    """Return a short description of a task's result, depending on its kind."""
    if record["kind"] == "run":
        seconds = f"{record['seconds']:.1f} s"
        if record["success"]:
            return f"{record['evaluations_to_target']:,} evaluations, {seconds}"
        best = "nothing" if record["best_fun"] is None else f"{record['best_fun']:.3g}"
        return (
            f"stopped ({record['reason']}) after {record['evaluations']:,} evaluations at {best}, {seconds}"
        )
    if record["kind"] == "timing":
        return f"{record['seconds']['best'] * 1e6:.2f} microseconds per sample"
    if record["kind"] == "memory":
        return f"{record['peak_bytes'] / 2**20:.1f} MiB"
    if "hits" in record:
        met = sum(hit is not None for hit in record["hits"])
        return f"{met} of {len(record['hits'])} targets in {record['evaluations']:,} evaluations"
    if record["kind"] == "seconds":
        end = "reached" if record["success"] else f"not reached ({record['reason']})"
        return f"{end} after {record['evaluations']:,} evaluations, {record['cpu_seconds']:.3g} s"
    return f"difference {record['difference']:.1e}"


def remaining(seconds: float) -> str:
    """Return a text about the remaining time."""
    return f"about {readable_time(seconds)} left" if seconds > 0 else "done"


def compact(number: float) -> str:
    """Format a count with three digits and a unit."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"
