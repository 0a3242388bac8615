"""What a user sees while experiments run: one line renewed on a terminal, plain lines in a pipe."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from lmma.experiments.schedule.eta import readable
from lmma.experiments.tasks import Task

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
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self.total, self.done = total, done
        self._next = 0.0
        self._waiting = False

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.stream.write(f"\r\x1b[K{text}\n" if self.live else f"{text}\n")
        self.stream.flush()

    def finished(self, task: Task, record: dict[str, Any], left: float) -> None:
        """Note that a task is done."""
        self.done += 1
        if not self.live:
            self.say(f"[{self.done}/{self.total}] {task.label}: {outcome(record)}; {remaining(left)}")

    def failed(self, task: Task, words: str) -> None:
        """Say that a task could not be done."""
        self.say(f"[{self.done}/{self.total}] {task.label}: FAILED, {words}")

    def due(self) -> bool:
        """Whether it is time to :meth:`show` again."""
        return time.monotonic() >= self._next

    def show(self, running: Sequence[InFlight], left: float, passed: float = 0.0) -> None:
        """Renew the line on a terminal, its bar a share of time; in a pipe say now and then what runs."""
        self._next = time.monotonic() + (0.1 if self.live else QUIET)
        if not self.live:
            if passed >= QUIET and running:
                texts = "; ".join(item.text() for item in running)
                self.say(f"[{self.done}/{self.total}] running: {texts}; {remaining(left)}")
            return
        share = passed / (passed + left) if passed + left > 0 else 1.0
        bar = ("#" * round(20 * share)).ljust(20, ".")
        text = f"[{bar}] {self.done}/{self.total}, {remaining(left)}"
        if running:
            text += " | " + " | ".join(item.text() for item in running)
        width = shutil.get_terminal_size().columns - 1
        self.stream.write("\r\x1b[K" + (text if len(text) <= width else text[: width - 3] + "..."))
        self.stream.flush()

    def waiting(self, others: int) -> None:
        """Say once that the rest is in the hands of another process."""
        if not self._waiting:
            self._waiting = True
            self.say(f"{others} of the tasks are being done by another process on this store; waiting for it")

    def close(self) -> None:
        """Leave the terminal on a fresh line."""
        if self.live:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def outcome(record: dict[str, Any]) -> str:
    """Return what came of a task in a few words."""
    if record["kind"] == "run":
        seconds = f"{record['seconds']:.1f} s"
        if record["success"]:
            return f"{record['evaluations_to_target']:,} evaluations, {seconds}"
        best = "nothing" if record["best_fun"] is None else f"{record['best_fun']:.3g}"
        return (
            f"stopped ({record['reason']}) after {record['evaluations']:,} evaluations at {best}, {seconds}"
        )
    if record["kind"] == "timing":
        return f"{record['seconds']['best'] * 1e6:.2f} microseconds a sample"
    if record["kind"] == "memory":
        return f"{record['peak_bytes'] / 2**20:.1f} MiB"
    if record["kind"] == "largescale":
        met = sum(hit is not None for hit in record["hits"])
        return f"{met} of {len(record['hits'])} targets in {record['evaluations']:,} evaluations"
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
