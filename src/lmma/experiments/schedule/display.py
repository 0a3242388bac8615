"""What a user sees while experiments run: one line renewed on a terminal, plain lines in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from lmma.experiments.tasks import Task
from lmma.output.progress import StatusLine, bar, readable
from lmma.store import Record

QUIET = 60.0  # seconds between two lines in a pipe about what is under way


@dataclass(frozen=True)
class InFlight:
    """A task that runs now."""

    task: Task
    seconds: float
    evaluations: int = 0
    best: float = float("nan")

    def text(self) -> str:
        """Return the task and how far it is."""
        if self.evaluations == 0:
            return self.task.label
        return f"{self.task.label}: {compact(self.evaluations)} evaluations, f = {self.best:.1e}"


class Display:
    """Shows how many tasks are done, which run, and how long the rest will take."""

    def __init__(self, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.line = StatusLine(stream, every=QUIET)
        self.total, self.done = total, done
        self._waiting = False

    @property
    def live(self) -> bool:
        """Whether the line is renewed on a terminal."""
        return self.line.live

    def finished(self, task: Task, record: Record, left: float) -> None:
        """Note that a task is done."""
        self.done += 1
        if not self.live:
            self._say(f"{task.label}: {in_brief(record)}; {remaining(left)}")

    def failed(self, task: Task, words: str) -> None:
        """Say that a task could not be done."""
        self._say(f"{task.label}: FAILED, {words}")

    def due(self) -> bool:
        """Return whether it is time to :meth:`show` again."""
        return self.line.due()

    def show(self, running: Sequence[InFlight], left: float, passed: float = 0.0) -> None:
        """Renew the line on a terminal, its bar a share of time; in a pipe say now and then what runs."""
        texts = [item.text() for item in running]
        if self.live:
            share = passed / (passed + left) if passed + left > 0 else 1.0
            self.line.show(
                " | ".join([f"{bar(share, 20)} {self.done}/{self.total}, {remaining(left)}", *texts])
            )
        elif running and passed >= QUIET:
            self.line.show(f"[{self.done}/{self.total}] running: {'; '.join(texts)}; {remaining(left)}")
        else:
            self.line.wait()

    def waiting(self, others: int) -> None:
        """Say once that another process does the rest."""
        if not self._waiting:
            self._waiting = True
            self.line.say(
                f"{others} of the tasks are being done by another process on this store; waiting for it"
            )

    def close(self) -> None:
        """Leave the terminal on a fresh line."""
        self.line.close(erase=True)

    def _say(self, text: str) -> None:
        self.line.say(f"[{self.done}/{self.total}] {text}")


def in_brief(record: Record) -> str:
    """Return the result of a task in a few words."""
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
    """Return how much is left, in words."""
    return f"about {readable(seconds)} left" if seconds > 0 else "done"


def compact(number: float) -> str:
    """Return a count with three digits and a unit."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"
