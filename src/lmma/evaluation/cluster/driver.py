"""Driver of a cluster: tracks workers and requests, and resends tasks of lost workers.

Dask, Ray and MPI are transports, one short module each; the driver does not depend on them. Each message goes
to one worker and names a host by a token that only one process knows. If a transport delivers it to another
process, that process replies "unregistered", so no message is evaluated twice.
"""

from __future__ import annotations

import math
import pickle
import time
import uuid
from abc import abstractmethod
from dataclasses import dataclass
from typing import final

from lmma.evaluation.base import Array, EvaluationOptions, Evaluator, RandomNumbers, Values
from lmma.evaluation.batch import EvaluationBatch, collect_values, new_batch
from lmma.evaluation.cluster.messages import ClusterError, Message, Reply, Transport
from lmma.evaluation.cluster.worker_host import LEASE, HostSetup
from lmma.evaluation.failures import TaskFailure

POLL = 1.0  # seconds between updates of the list of workers
WORKER_TIMEOUT = 600.0  # seconds to wait for a worker before giving up
FAILED_STARTS = 20  # consecutive workers that may exit before their first reply
CHUNKS = 4  # minimum number of messages per slot and generation, if there are enough candidates
MIN_MESSAGE_TIME = 0.02  # seconds of evaluation per message, to amortise its cost
SMOOTHING = 4  # number of replies over which the evaluation time is averaged


@dataclass(eq=False)
class ClusterWorker:
    """The driver's record of one worker."""

    name: str
    slots: int
    token: str
    number: int = 0  # in order of joining
    ready: bool = False  # whether it has replied to its first message
    busy: int = 0  # tasks sent and not yet answered
    last_sent: float = 0.0  # time of the last message
    unregistered: int = 0  # processes under this name that still need a setup


@dataclass(frozen=True)
class Request:
    """The worker and task of a message that was sent."""

    worker: ClusterWorker
    generation: int = -1  # -1: no task
    first: int = 0


class ClusterDriver(Evaluator):
    """Evaluates on the workers of a cluster; subclasses define the content of a task.

    Parameters
    ----------
    objective : bytes
        ``(fun, args)``, pickled; ``lmma`` and what ``fun`` imports must be installed on the workers.
    options : EvaluationOptions
        As for every evaluator. After a timeout, the evaluating process is killed, not the cluster worker.
    transport : Transport
        The cluster.
    """

    def __init__(self, objective: bytes, options: EvaluationOptions, transport: Transport) -> None:
        super().__init__(options.on_error)
        self.options = options
        self.transport = transport
        self.sent = self.received = 0  # bytes
        self._objective = objective
        self._workers: dict[str, ClusterWorker] = {}
        self._free: set[ClusterWorker] = set()  # workers with a free slot, ready or not
        self._joined = 0  # number of workers so far
        self._failed_starts = 0  # consecutive workers lost before their first reply
        self._requests: dict[int, Request] = {}  # by number
        self._request = 0  # number of the last request
        self._generation = 0
        self._seconds_per_row = 1.0  # running average
        self._next_poll = 0.0
        self._last_ready = math.inf  # when a worker was last ready

    # Content of tasks

    @abstractmethod
    def _payload(self, worker: ClusterWorker, candidates: Array, rows: slice) -> object:
        """Return the message content for ``worker`` to evaluate ``rows``."""

    def _setup(self, worker: ClusterWorker) -> HostSetup:
        """Return the setup of the host on ``worker``."""
        return HostSetup(self._objective, self.options, worker.slots if self.transport.addressed else 1)

    def _first_payload(self, worker: ClusterWorker) -> object:
        """Return the payload sent to a new worker along with its setup."""
        return None

    def _can_take_tasks(self, worker: ClusterWorker) -> bool:
        """Return whether ``worker`` can receive tasks now."""
        return True

    def _accept(self, worker: ClusterWorker, reply: Reply) -> bool:
        """Return whether values in the reply of ``worker`` may be used."""
        return True

    # A generation

    def __call__(self, candidates: Array, seed: RandomNumbers | None = None) -> Values:
        """Return one value per row."""
        if seed is not None:
            candidates = self._with_seed(candidates, seed)
        try:
            self._generation += 1
            batch = self._new_batch(candidates)
            while not batch.complete:
                if time.monotonic() >= self._next_poll:
                    self._poll_workers(batch)
                    self._next_poll = time.monotonic() + POLL
                self._assign_tasks(batch, candidates)
                self._receive(batch, max(0.0, self._next_poll - time.monotonic()))
        except BaseException:
            self.close()  # Ctrl-C, or no workers left: stop all evaluations
            raise
        return collect_values(self, batch)

    def _new_batch(self, candidates: Array) -> EvaluationBatch:
        if not self._workers:
            self._poll_workers(None)  # the number of workers determines the block size
        slots = max(1, sum(worker.slots for worker in self._workers.values()))
        block = len(candidates) // (CHUNKS * slots)
        if not self.options.vectorized:  # a message costs milliseconds: group rows that cost less
            block = min(block, int(MIN_MESSAGE_TIME / self._seconds_per_row))
        return new_batch(self, candidates, max(1, block), self.options.quorum)

    def _assign_tasks(self, batch: EvaluationBatch, candidates: Array) -> None:
        """Assign a task to each free slot, spread evenly over the workers."""
        if not batch.queue:
            return
        free = [
            (place, worker.number, worker)
            for worker in list(self._free)
            if worker.ready and self._can_take_tasks(worker)
            for place in range(worker.busy, worker.slots)
        ]
        free.sort(key=lambda entry: entry[:2])
        tasks, batch.queue = batch.queue[: len(free)], batch.queue[len(free) :]
        for (_, _, worker), first in zip(free, tasks, strict=False):
            rows = slice(first, first + batch.rows_at(first))
            setup = self._setup(worker) if worker.unregistered else None
            worker.unregistered -= bool(worker.unregistered)
            payload = self._payload(worker, candidates, rows)
            self._send(Request(worker, self._generation, first), payload, setup)
            worker.busy += 1
            if worker.busy == worker.slots:
                self._free.discard(worker)

    def _receive(self, batch: EvaluationBatch | None, seconds: float) -> None:
        """Process replies; wait at most ``seconds`` for the first."""
        for number, reply in self.transport.replies(seconds):
            request = self._requests.pop(number, None)
            if request is None:
                continue  # from a worker already given up
            if request.generation >= 0:
                request.worker.busy -= 1
                self._free.add(request.worker)
            if reply is None:
                self._remove_worker(request.worker, batch, request)
                continue
            self.received += len(reply)
            self._process_reply(request, pickle.loads(reply), batch)

    def _process_reply(self, request: Request, reply: Reply, batch: EvaluationBatch | None) -> None:
        worker = request.worker
        if reply.status == "broken":
            raise _cannot_evaluate(worker.name, reply.failures[0][0])
        if reply.status == "unregistered":
            if self.transport.addressed:
                self._remove_worker(worker, batch, request)
            else:
                worker.unregistered += 1
                self._requeue(request, batch)
            return
        worker.ready = True
        self._failed_starts = 0
        self.record.deaths += reply.deaths
        if reply.status == "done":
            self._seconds_per_row += (reply.seconds - self._seconds_per_row) / SMOOTHING
        if not self._accept(worker, reply):
            self._requeue(request, batch)
            return
        if batch is None or not self._is_pending(request, batch):
            return
        self._record_reply(request, reply, batch)

    def _record_reply(self, request: Request, reply: Reply, batch: EvaluationBatch) -> None:
        """Record the outcome of a task; requeue rows that a worker death left unanswered."""
        assert reply.values is not None
        first, seconds, name = request.first, reply.seconds, request.worker.name
        if reply.unanswered and not self.options.vectorized:
            batch.split(first)
        batch.constraint_values |= {first + row: g for row, g in reply.constraint_values.items()}
        without = set(reply.unanswered)
        for row, (failed, rows) in reply.failures.items():
            batch.record_failure(first + row, failed, rows, seconds=seconds, worker=name)
            without.update(range(row, row + rows))
        answered = [row for row in range(len(reply.values)) if row not in without]
        if answered and not (reply.unanswered and self.options.vectorized):
            places = [first + row for row in answered]
            batch.record_rows(places, (reply.values[answered], None), seconds, name)
        if not reply.unanswered:
            return
        repeats = [first] if self.options.vectorized else [first + row for row in reply.unanswered]
        died = {first + row for row in reply.died}
        for task in reversed(repeats):
            if task in died:
                batch.retry(task, "worker process")
            else:
                batch.queue.insert(0, task)

    def _is_pending(self, request: Request, batch: EvaluationBatch) -> bool:
        return request.generation == self._generation and bool(batch.pending[request.first])

    def _requeue(self, request: Request, batch: EvaluationBatch | None) -> None:
        """Put a task that the worker did not start back at the front of the queue."""
        if batch is not None and self._is_pending(request, batch):
            batch.queue.insert(0, request.first)

    # Workers

    def _poll_workers(self, batch: EvaluationBatch | None) -> None:
        """Add workers that have joined; requeue the tasks of those that have left."""
        there = self.transport.workers()
        for name in [name for name in self._workers if name not in there]:
            self._remove_worker(self._workers[name], batch)
        for name, slots in there.items():
            if name not in self._workers and slots > 0:
                self._joined += 1
                worker = ClusterWorker(name, slots, uuid.uuid4().hex, self._joined)
                self._workers[name] = worker
                self._handshake(worker)
                self._free.add(worker)
        now = time.monotonic()
        for worker in self._workers.values():
            idle = worker.ready and not worker.busy and now - worker.last_sent > LEASE / 4
            if idle and self.transport.addressed:
                self._send(Request(worker), None)  # keeps its lease alive
        if math.isinf(self._last_ready) or any(worker.ready for worker in self._workers.values()):
            self._last_ready = now
        elif now - self._last_ready > WORKER_TIMEOUT:
            raise ClusterError(
                f"no {self.transport.name} worker has answered for {WORKER_TIMEOUT:g} s: start workers, then "
                "resume the run from its checkpoint"
            )

    def _handshake(self, worker: ClusterWorker) -> None:
        """Register the run with a new worker, which is ready once it has replied."""
        if self.transport.addressed:
            self._send(Request(worker), self._first_payload(worker), self._setup(worker))
        else:
            worker.ready, worker.unregistered = True, worker.slots

    def _remove_worker(
        self, worker: ClusterWorker, batch: EvaluationBatch | None, *requests: Request
    ) -> None:
        """Remove a lost worker and requeue its tasks."""
        lost = list(requests)
        for number in [number for number, request in self._requests.items() if request.worker is worker]:
            lost.append(self._requests.pop(number))
            self.transport.cancel(number)
        lost = [request for request in lost if batch is not None and self._is_pending(request, batch)]
        self.record.deaths += bool(lost)
        for request in lost:
            assert batch is not None
            # Retry rows one at a time: any of them may have killed the worker
            for first in [request.first] if self.options.vectorized else batch.split(request.first):
                batch.retry(first, "worker of the cluster")
        self._free.discard(worker)
        self._failed_starts += not worker.ready
        if self._failed_starts > FAILED_STARTS:
            raise ClusterError(
                f"{self._failed_starts} {self.transport.name} workers in a row exited before their first "
                f"reply, most recently {worker.name}: is the same lmma installed there, with enough memory?"
            )
        if self._workers.get(worker.name) is worker:
            del self._workers[worker.name]
            self.transport.remove(worker.name)
        self._next_poll = 0.0

    def _send(self, request: Request, payload: object, setup: HostSetup | None = None) -> None:
        worker = request.worker
        message = pickle.dumps(Message(worker.token, payload, setup), protocol=5)
        self.sent += len(message)
        self._request += 1
        self._requests[self._request] = request
        worker.last_sent = time.monotonic()
        self.transport.send(self._request, worker.name, message)

    def close(self) -> None:
        """Shut down this run's hosts; the cluster itself keeps running."""
        tokens = {name: worker.token for name, worker in self._workers.items()}
        for number in self._requests:
            self.transport.cancel(number)
        self._workers.clear()
        self._free.clear()
        self._requests.clear()
        self._next_poll = 0.0
        self.transport.close(tokens)


@final
class VectorDriver(ClusterDriver):
    """Sends candidates to the workers as vectors."""

    def _payload(self, worker: ClusterWorker, candidates: Array, rows: slice) -> Array:
        return candidates[rows]


def _cannot_evaluate(worker: str, failed: TaskFailure) -> ClusterError:
    failure = failed.failure
    error = ClusterError(f"worker {worker} cannot evaluate fun: {failure.kind}: {failure.message}")
    error.add_note(f"On the worker:\n{failure.traceback}")
    return error
