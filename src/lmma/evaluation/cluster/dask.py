"""Letters by Dask: each is a task tied to one worker, each answer an event.

Answers do not come as results of tasks: a result stays on its worker until it is fetched, and if the worker
is lost before that, Dask silently runs the task again. An event reaches the scheduler or is lost with its
worker.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import uuid
from typing import Any, final

from lmma.evaluation.cluster.transport import ClusterError, Engine, drained
from lmma.evaluation.cluster.worker_host import forget, serve

GOODBYE = 3.0  # seconds for agents to be told that a run has ended; later they find out by themselves
LARGE = 1 << 20  # bytes from which a letter is sent to its worker as data, past the scheduler's books


def run_task(letter: bytes, ticket: int, topic: str) -> None:
    """Serve a letter on a worker of Dask."""
    from distributed import get_worker

    get_worker().log_event(topic, {"ticket": ticket, "answer": serve(letter)})


async def forget_task(tokens: list[str]) -> None:
    """End agents on a worker of Dask; a coroutine, so that it need not wait for a free thread."""
    for token in tokens:
        forget(token)


@final
class Dask(Engine):
    """The workers of a ``dask.distributed.Client``.

    Parameters
    ----------
    client : distributed.Client
        A connection to a scheduler.
    own : bool
        Whether to close it in the end.
    """

    name = "Dask"

    def __init__(self, client: Any, *, own: bool = False) -> None:
        if client.asynchronous:
            raise ValueError("workers must be a Dask client that waits for answers: asynchronous=False")
        self.client = client
        self.own = own
        self.topic = f"lmma-{uuid.uuid4().hex}"
        self._answers: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._futures: dict[int, Any] = {}
        self._listening = False

    def members(self) -> dict[str, int]:
        """Return the addresses of workers and how many threads each has."""
        try:
            return dict(self.client.nthreads())
        except (OSError, TimeoutError, RuntimeError, ValueError, AttributeError) as error:
            raise ClusterError(f"Dask's scheduler cannot be reached any more: {error}") from error

    def send(self, ticket: int, member: str, letter: bytes) -> None:
        """Submit a task that only ``member`` may run."""
        if not self._listening:
            self.client.subscribe_topic(self.topic, self._take)
            self._listening = True
        carried: Any = letter
        if len(letter) > LARGE:
            try:
                carried = self.client.scatter(letter, workers=[member], hash=False)
            except (OSError, TimeoutError, ValueError, KeyError):  # it has just gone
                self._answers.put((ticket, None))
                return
        future = self.client.submit(
            run_task, carried, ticket, self.topic,
            key=f"{self.topic}-{ticket}", workers=[member], allow_other_workers=False, retries=0, pure=False,
        )  # fmt: skip
        self._futures[ticket] = future
        future.add_done_callback(lambda done: self._look_at(ticket, done))

    def _take(self, event: tuple[float, dict[str, Any]]) -> None:
        """Receive an answer, in the client's own thread."""
        message = event[1]
        self._answers.put((message["ticket"], message["answer"]))

    def _look_at(self, ticket: int, future: Any) -> None:
        """Notice a task that ended without an answer, in a thread of Dask."""
        if future.status == "error":
            self._answers.put((ticket, future.exception()))
        elif future.status != "finished":
            self._answers.put((ticket, None))

    def answers(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return what has come in."""
        return [
            (ticket, _read(answer))
            for ticket, answer in drained(self._answers, seconds)
            if self._futures.pop(ticket, None) is not None or answer is None
        ]

    def give_up(self, ticket: int) -> None:
        """Cancel a task; one that runs goes on, but nobody hears of it."""
        future = self._futures.pop(ticket, None)
        if future is not None:
            with contextlib.suppress(Exception):
                future.cancel()

    def close(self, members: dict[str, str]) -> None:
        """End all agents."""
        if members:
            leave = threading.Thread(target=self._take_leave, args=(members,), daemon=True)
            leave.start()
            leave.join(GOODBYE)
        if self._listening:
            self._listening = False
            with contextlib.suppress(Exception):
                self.client.unsubscribe_topic(self.topic)
        self._futures.clear()
        if self.own:
            self.client.close()

    def _take_leave(self, members: dict[str, str]) -> None:
        with contextlib.suppress(Exception):  # whoever has gone needs no good-bye
            tokens, workers = list(members.values()), list(members)
            self.client.run(forget_task, tokens, workers=workers, wait=False, on_error="ignore")


def _read(answer: Any) -> bytes | None:
    """Return an answer, None for a lost worker; raise what shows that no worker could ever answer."""
    if answer is None or isinstance(answer, bytes):
        return answer
    if type(answer).__name__ in ("KilledWorker", "CommClosedError", "CancelledError", "FutureCancelledError"):
        return None
    raise ClusterError(
        f"a worker of Dask cannot serve: {type(answer).__name__}: {answer}. Is the same lmma installed there?"
    ) from answer


def connect(address: str) -> Dask:
    """Return the cluster whose scheduler listens at ``address``, host:port."""
    from distributed import Client

    try:
        return Dask(Client(address), own=True)
    except OSError as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from None
