"""Evaluation by a cluster: which workers there are, what each was sent, what is lost and sent again.

Nothing here knows Dask from Ray or MPI; that is a transport, one short file each. A message goes to one
worker and carries candidates; what comes back is counted here. No transport may run a message twice on its
own: each names a host by a token that only one process knows, and any other replies "unregistered".
"""

from __future__ import annotations

import math
import pickle
import time
import uuid
from abc import abstractmethod
from dataclasses import dataclass
from typing import final

from lmma.evaluation.base import Array, EvaluationOptions, Evaluator, Values
from lmma.evaluation.batch import EvaluationBatch, settled
from lmma.evaluation.cluster.messages import Message, Reply
from lmma.evaluation.cluster.transport import ClusterError, Transport
from lmma.evaluation.cluster.worker_host import LEASE, HostSetup
from lmma.evaluation.failures import TaskFailure

POLL = 1.0  # seconds between two looks at which workers there are
PATIENCE = 600.0  # seconds to wait for a first, or for another, worker
FAILED_STARTS = 20  # workers in a row that may end before they have replied
CHUNKS = 4  # at least so many messages for each slot and generation, where there are as many candidates
WORTHWHILE = 0.02  # seconds of evaluation that are worth a message
SMOOTHING = 4  # replies over which the time of an evaluation is averaged


@dataclass(eq=False)
class ClusterWorker:
    """A worker of the cluster, as seen from the run."""

    name: str
    slots: int
    token: str
    number: int = 0  # in the order in which they joined
    ready: bool = False  # whether it has replied to its first message
    busy: int = 0  # tasks it has been sent and not answered
    last_sent: float = 0.0  # when a message was last sent to it
    unregistered: int = 0  # processes behind this name that do not know the run


@dataclass(frozen=True)
class Request:
    """What a message was sent for."""

    worker: ClusterWorker
    generation: int = -1  # none: it carries no task
    first: int = 0


class ClusterDriver(Evaluator):
    """Has the workers of a cluster evaluate; what a task consists of is left to subclasses.

    Parameters
    ----------
    objective : bytes
        ``(fun, args)``, pickled; ``lmma`` and what ``fun`` imports must be installed on the workers.
    options : EvaluationOptions
        As for every evaluator. Where an evaluation exceeds the time allowed, its process is killed, its
        worker is not.
    transport : Transport
        The cluster.
    """

    def __init__(self, objective: bytes, options: EvaluationOptions, transport: Transport) -> None:
        super().__init__(options.on_error)
        self.options = options
        self.transport = transport
        self.sent = self.received = 0  # bytes of messages and replies
        self._objective = objective
        self._workers: dict[str, ClusterWorker] = {}
        self._free: set[ClusterWorker] = set()  # those with a slot to spare, ready or not
        self._joined = 0  # workers so far
        self._failed_starts = 0  # workers in a row that were lost before they had replied
        self._requests: dict[int, Request] = {}  # by number
        self._request = 0  # number of the last
        self._generation = 0
        self._seconds_per_row = 1.0  # about
        self._next_poll = 0.0
        self._last_ready = math.inf  # when a worker was last ready

    # What a task is

    @abstractmethod
    def _payload(self, worker: ClusterWorker, candidates: Array, rows: slice) -> object:
        """Return what ``worker`` needs to evaluate ``rows``."""

    def _setup(self, worker: ClusterWorker) -> HostSetup:
        """Return what ``worker`` must know before it can evaluate."""
        return HostSetup(self._objective, self.options, worker.slots if self.transport.addressed else 1)

    def _first_payload(self, worker: ClusterWorker) -> object:
        """Return what a new worker needs besides its setup."""
        return None

    def _can_take_tasks(self, worker: ClusterWorker) -> bool:
        """Return whether ``worker`` can be given tasks now."""
        return True

    def _accept(self, worker: ClusterWorker, reply: Reply) -> bool:
        """Return whether values in the reply of ``worker`` may be used."""
        return True

    # A generation

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        try:
            self._generation += 1
            batch = self._new_batch(len(candidates))
            while not batch.complete:
                if time.monotonic() >= self._next_poll:
                    self._poll_workers(batch)
                    self._next_poll = time.monotonic() + POLL
                self._assign_tasks(batch, candidates)
                self._receive(batch, max(0.0, self._next_poll - time.monotonic()))
        except BaseException:
            self.close()  # Ctrl-C, or nobody left: nothing may go on evaluating
            raise
        return settled(self, batch)

    def _new_batch(self, rows: int) -> EvaluationBatch:
        if not self._workers:
            self._poll_workers(None)  # how many there are decides how rows are grouped
        slots = max(1, sum(worker.slots for worker in self._workers.values()))
        block = rows // (CHUNKS * slots)
        if not self.options.vectorized:  # messages cost milliseconds: several rows in one if they cost less
            block = min(block, int(WORTHWHILE / self._seconds_per_row))
        return EvaluationBatch(rows, max(1, block), self.options.quorum)

    def _assign_tasks(self, batch: EvaluationBatch, candidates: Array) -> None:
        """Give each free slot a task, every worker one before any gets a second."""
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
        """Take in replies as they come, for at most so long."""
        for number, reply in self.transport.replies(seconds):
            request = self._requests.pop(number, None)
            if request is None:
                continue  # of a worker that was thought to be lost
            if request.generation >= 0:
                request.worker.busy -= 1
                self._free.add(request.worker)
            if reply is None:
                self._remove_worker(request.worker, batch, request)
                continue
            self.received += len(reply)
            self._take(request, pickle.loads(reply), batch)

    def _take(self, request: Request, reply: Reply, batch: EvaluationBatch | None) -> None:
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
        self.deaths += reply.deaths
        if reply.status == "done":
            self._seconds_per_row += (reply.seconds - self._seconds_per_row) / SMOOTHING
        if not self._accept(worker, reply):
            self._requeue(request, batch)
            return
        if batch is None or not self._is_wanted(request, batch):
            return
        assert reply.values is not None
        self._take_values(request.first, reply, reply.values, batch)
        batch.beside |= {request.first + row: numbers for row, numbers in reply.beside.items()}
        for row, (failed, rows) in reply.failures.items():
            batch.fail(request.first + row, failed, rows)

    def _take_values(self, first: int, reply: Reply, values: Values, batch: EvaluationBatch) -> None:
        """Take the values of a task; what a death left without an answer is evaluated again."""
        if not reply.unanswered:
            batch.take(first, values)
            return
        if self.options.vectorized:
            again = [first]
        else:
            batch.split(first)
            again = [first + row for row in reply.unanswered]
            for row in set(range(len(values))) - set(reply.unanswered):
                batch.take(first + row, values[row : row + 1])
        died = {first + row for row in reply.died}
        for task in reversed(again):
            if task in died:
                batch.retry(task, "worker process")
            else:
                batch.queue.insert(0, task)

    def _is_wanted(self, request: Request, batch: EvaluationBatch) -> bool:
        return request.generation == self._generation and bool(batch.pending[request.first])

    def _requeue(self, request: Request, batch: EvaluationBatch | None) -> None:
        """Put a task that was refused, not begun, back in front."""
        if batch is not None and self._is_wanted(request, batch):
            batch.queue.insert(0, request.first)

    # Workers

    def _poll_workers(self, batch: EvaluationBatch | None) -> None:
        """Take in workers that have joined, and take back what those that have left had."""
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
                self._send(Request(worker), None)  # so that it does not think the run has ended
        if math.isinf(self._last_ready) or any(worker.ready for worker in self._workers.values()):
            self._last_ready = now
        elif now - self._last_ready > PATIENCE:
            raise ClusterError(
                f"{self.transport.name} has had no worker that answers for {PATIENCE:g} s: start some, then "
                "start the run again from its checkpoint"
            )

    def _handshake(self, worker: ClusterWorker) -> None:
        """Register the run with a new worker; it is ready when it has replied."""
        if self.transport.addressed:
            self._send(Request(worker), self._first_payload(worker), self._setup(worker))
        else:
            worker.ready, worker.unregistered = True, worker.slots

    def _remove_worker(
        self, worker: ClusterWorker, batch: EvaluationBatch | None, *requests: Request
    ) -> None:
        """Forget a worker that is lost, and have others evaluate what it had."""
        lost = list(requests)
        for number in [number for number, request in self._requests.items() if request.worker is worker]:
            lost.append(self._requests.pop(number))
            self.transport.cancel(number)
        lost = [request for request in lost if batch is not None and self._is_wanted(request, batch)]
        self.deaths += bool(lost)
        for request in lost:
            assert batch is not None
            # Rows that may have killed a worker go on alone
            for first in [request.first] if self.options.vectorized else batch.split(request.first):
                batch.retry(first, "worker of the cluster")
        self._free.discard(worker)
        self._failed_starts += not worker.ready
        if self._failed_starts > FAILED_STARTS:
            raise ClusterError(
                f"{self._failed_starts} workers of {self.transport.name} in a row ended before they could "
                f"answer, the last {worker.name}: is the same lmma installed there, and enough memory?"
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
        """End what runs on the cluster for this run; the cluster itself stays up."""
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
    """Sends candidates as vectors."""

    def _payload(self, worker: ClusterWorker, candidates: Array, rows: slice) -> Array:
        return candidates[rows]


def _cannot_evaluate(worker: str, failed: TaskFailure) -> ClusterError:
    failure = failed.failure
    error = ClusterError(f"worker {worker} cannot evaluate fun: {failure.kind}: {failure.message}")
    error.add_note(f"On the worker:\n{failure.traceback}")
    return error
