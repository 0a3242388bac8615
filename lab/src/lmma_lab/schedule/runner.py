"""Execution of tasks: claim them in a store, run them in worker processes, and store each record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TextIO

from lmma._text import readable_time
from lmma_lab.schedule.display import Display, RunningTask
from lmma_lab.schedule.eta import Clock, time_left
from lmma_lab.schedule.partial_runs import EVERY, FOLDER, PartialRuns
from lmma_lab.schedule.processes import TaskWorker, ready
from lmma_lab.store import Store
from lmma_lab.tasks import Solve, Task, check_names, unique

HEARTBEAT = 60.0  # seconds between renewals of the claims in the store
POLL = 2.0  # seconds between checks for tasks finished by another process


@dataclass
class RunnerSummary:
    """Number of tasks with a record, and the reasons why others have none."""

    total: int
    done: int
    failed: dict[str, str] = field(default_factory=dict)  # label -> reason
    interrupted: bool = False
    out_of_time: bool = False

    @property
    def complete(self) -> bool:
        """True if every task has a record."""
        return self.done == self.total


class OutOfTime(Exception):
    """The time limit is reached."""


class Runner:
    """Run the tasks that have no record in ``store``, on ``workers`` processes.

    Parameters
    ----------
    tasks : sequence of Task
        The tasks; those with a record in the store are skipped.
    store : Store
        Store for the records; each is written as soon as its task is finished.
    workers : int
        Number of tasks that run in parallel, each on one thread.
    stream : text stream, optional
        Stream for progress; standard error by default.
    clock : Clock, optional
        Estimator of durations.
    checkpoint_every : float
        Seconds between checkpoints of a run in progress, which are saved next to the store.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        store: Store,
        workers: int = 1,
        *,
        stream: TextIO | None = None,
        clock: Clock | None = None,
        checkpoint_every: float = EVERY,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        check_names(tasks)
        self.tasks = {task.key: task for task in unique(tasks)}
        self.store = store
        self.workers = workers
        self.partial_runs = PartialRuns((store.path.parent / FOLDER).absolute(), checkpoint_every)
        self.clock = Clock() if clock is None else clock
        for key, record in store.get(list(self.tasks)).items():
            self.clock.learn(self.tasks[key], record)
        here = store.done(list(self.tasks))
        self.left = {key: task for key, task in self.tasks.items() if key not in here}
        self.display = Display(len(self.tasks), len(here), stream)
        self.failed: dict[str, str] = {}
        self._processes: list[TaskWorker] = []
        self._progress: dict[str, tuple[int, float]] = {}
        self._began = time.monotonic()
        self._order: dict[str, int] = {}
        self._seconds: float | None = None

    def set_order(self, order: Sequence[str], seconds: float | None = None) -> None:
        """Run tasks in the given order of keys instead of the longest first, and stop after ``seconds``.

        Runs then in progress are saved and resume the next time.
        """
        self._order = {key: place for place, key in enumerate(order)}
        self._seconds = seconds

    def announce(self) -> str:
        """Return a text with the number of tasks and the estimated time."""
        total, left = len(self.tasks), len(self.left)
        runs = sum(isinstance(task, Solve) for task in self.tasks.values())
        text = f"{total} tasks ({runs} runs)"
        if left < total:
            text += f", {total - left} of them already finished"
        if left == 0:
            return text + ": nothing left to do"
        workers = f"{self.workers} workers" if self.workers > 1 else "one worker"
        return text + f"; about {readable_time(self.time_left())} on {workers}"

    def time_left(self) -> float:
        """Return the estimated remaining seconds; exclusive tasks run alone, the others in parallel."""
        alone = 0.0
        lengths = []
        now = time.monotonic()
        since = {worker.task.key: worker.since for worker in self._processes if worker.task is not None}
        for key, task in self.left.items():
            seconds = self.clock.expected(task)
            if key in since:
                seconds = max(0.1 * seconds, seconds - (now - since[key]))
            if task.exclusive:
                alone += seconds
            else:
                lengths.append(seconds)
        return alone + time_left(lengths, self.workers)

    def run(self) -> RunnerSummary:
        """Run all tasks; Ctrl-C and the time limit end the work early, which the summary reports."""
        interrupted = out_of_time = False
        self._began = time.monotonic()
        try:
            # Time measurements come first, one at a time, without other tasks.
            self._work([key for key, task in self.left.items() if task.exclusive], 1)
            rest = [key for key, task in self.left.items() if not task.exclusive]
            # The longest first: a long run started last would leave the other workers idle.
            rest.sort(key=lambda key: self._order.get(key, -self.clock.expected(self.left[key])))
            self._work(rest, self.workers)
        except KeyboardInterrupt:
            interrupted = True
        except OutOfTime:
            out_of_time = True
        finally:
            for worker in self._processes:
                worker.end()
            self._processes.clear()
            self.display.close()
            self._release()
        done = len(self.tasks) - len(self.left)
        return RunnerSummary(len(self.tasks), done, self.failed, interrupted, out_of_time)

    def _release(self) -> None:
        with suppress(OSError):  # such as a full disk; the claims end with this process anyway
            self.store.release()

    def _work(self, keys: list[str], workers: int) -> None:
        waiting = list(keys)
        heartbeat = time.monotonic() + HEARTBEAT
        next_poll = 0.0
        while waiting or any(worker.task for worker in self._processes):
            now = time.monotonic()
            if self._seconds is not None and now - self._began >= self._seconds:
                raise OutOfTime
            if now >= heartbeat:
                self.store.renew()
                heartbeat = now + HEARTBEAT
            busy = [worker for worker in self._processes if worker.task]
            free = workers - len(busy)
            if free > 0 and waiting and now >= next_poll:
                claimed = self.store.claim(waiting, free)
                for key in claimed:
                    waiting.remove(key)
                    self._idle_worker().give(self.left[key])
                if len(claimed) < free:  # the rest is finished, or claimed by another process
                    next_poll = now + POLL
                    self._drop_finished_elsewhere(waiting)
                    if waiting and not claimed and not busy:
                        self.display.waiting(len(waiting))
            self._receive_all(waiting)
            if self.display.due():
                self.display.show(self._running(), self.time_left(), now - self._began)

    def _idle_worker(self) -> TaskWorker:
        for worker in self._processes:
            if worker.task is None:
                return worker
        self._processes.append(TaskWorker(self.partial_runs))
        return self._processes[-1]

    def _receive_all(self, waiting: list[str]) -> None:
        busy = [worker for worker in self._processes if worker.task]
        if not busy:
            if waiting:
                time.sleep(0.2)
            return
        for worker in ready(busy, 0.25):
            for what, content in worker.messages():
                self._receive(worker, what, content)

    def _receive(self, worker: TaskWorker, what: str, content: object) -> None:
        task = worker.task
        if task is None:
            return
        if what == "progress":
            assert isinstance(content, tuple)
            self._progress[task.key] = content
            self.clock.watch(task, time.monotonic() - worker.since, content[0])
            return
        worker.task = None
        self._progress.pop(task.key, None)
        if what == "done":
            assert isinstance(content, dict)
            self.store.put(task.key, task.kind, content)
            self.partial_runs.forget(task.key)
            del self.left[task.key]
            self.clock.learn(task, content)
            self.display.finished(task, content, 0.0 if self.display.live else self.time_left())
            return
        self.clock.forget(task)
        if what == "died":
            worker.end()
            self._processes.remove(worker)
        self.failed[task.label] = str(content)
        self.store.release([task.key])
        self.display.failed(task, str(content))

    def _drop_finished_elsewhere(self, waiting: list[str]) -> None:
        done = self.store.done(waiting)
        for key in done:
            waiting.remove(key)
            task = self.left.pop(key)
            for record in self.store.get([key]).values():
                self.display.finished(task, record, self.time_left())

    def _running(self) -> list[RunningTask]:
        now = time.monotonic()
        return [
            RunningTask(worker.task, now - worker.since, *self._progress.get(worker.task.key, ()))
            for worker in self._processes
            if worker.task is not None
        ]
