"""Dask transport: each message is a task bound to one worker, each reply an event.

Replies are not task results: a result stays on its worker until it is fetched, and if the worker is lost
before that, Dask silently runs the task again. An event reaches the scheduler or is lost with its worker.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import uuid
from typing import Any, final

from lmma.evaluation.cluster.messages import ClusterError, Transport, drain
from lmma.evaluation.cluster.worker_host import end_host, serve

CLOSE_TIMEOUT = 3.0  # seconds to notify hosts that the run has ended; the others expire after LEASE
SCATTER_SIZE = 1 << 20  # bytes; larger messages are scattered instead of embedded in the task


def run_task(message: bytes, request: int, topic: str) -> None:
    """Serve a message on a Dask worker."""
    from distributed import get_worker

    get_worker().log_event(topic, {"request": request, "reply": serve(message)})


async def end_hosts(tokens: list[str]) -> None:
    """Shut down hosts on a Dask worker; a coroutine, so that it does not wait for a free thread."""
    for token in tokens:
        end_host(token)


@final
class DaskTransport(Transport):
    """The workers of a ``dask.distributed.Client``.

    Parameters
    ----------
    client : distributed.Client
        A connection to a scheduler.
    owned : bool
        Whether to close the client when the run ends.
    """

    name = "Dask"

    def __init__(self, client: Any, *, owned: bool = False) -> None:
        if client.asynchronous:
            raise ValueError("workers must be a synchronous Dask client: create it with asynchronous=False")
        self.client = client
        self.owned = owned
        self.topic = f"lmma-{uuid.uuid4().hex}"
        self._inbox: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._futures: dict[int, Any] = {}  # by request
        self._subscribed = False

    def workers(self) -> dict[str, int]:
        """Return the addresses of the workers, with their number of threads."""
        try:
            return dict(self.client.nthreads())
        except (OSError, TimeoutError, RuntimeError, ValueError, AttributeError) as error:
            raise ClusterError(f"connection to the Dask scheduler lost: {error}") from error

    def send(self, request: int, worker: str, message: bytes) -> None:
        """Submit a task that only ``worker`` may run."""
        if not self._subscribed:
            self.client.subscribe_topic(self.topic, self._take_event)
            self._subscribed = True
        carried: Any = message
        if len(message) > SCATTER_SIZE:
            try:
                carried = self.client.scatter(message, workers=[worker], hash=False)
            except (OSError, TimeoutError, ValueError, KeyError):  # the worker has just left
                self._inbox.put((request, None))
                return
        future = self.client.submit(
            run_task, carried, request, self.topic,
            key=f"{self.topic}-{request}", workers=[worker], allow_other_workers=False, retries=0, pure=False,
        )  # fmt: skip
        self._futures[request] = future
        future.add_done_callback(lambda done: self._check_task(request, done))

    def _take_event(self, event: tuple[float, dict[str, Any]]) -> None:
        """Receive a reply; called in a thread of the client."""
        content = event[1]
        self._inbox.put((content["request"], content["reply"]))

    def _check_task(self, request: int, future: Any) -> None:
        """Report a task that ended without a reply; called in a thread of Dask."""
        if future.status == "error":
            self._inbox.put((request, future.exception()))
        elif future.status != "finished":
            self._inbox.put((request, None))

    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return the replies received so far; wait up to ``seconds`` for the first."""
        return [
            (request, _read(reply))
            for request, reply in drain(self._inbox, seconds)
            if self._futures.pop(request, None) is not None or reply is None
        ]

    def cancel(self, request: int) -> None:
        """Cancel a task; a running task continues, but its result is ignored."""
        future = self._futures.pop(request, None)
        if future is not None:
            with contextlib.suppress(Exception):
                future.cancel()

    def close(self, tokens: dict[str, str]) -> None:
        """Shut down all hosts."""
        if tokens:
            ending = threading.Thread(target=self._end_hosts, args=(tokens,), daemon=True)
            ending.start()
            ending.join(CLOSE_TIMEOUT)
        if self._subscribed:
            self._subscribed = False
            with contextlib.suppress(Exception):
                self.client.unsubscribe_topic(self.topic)
        self._futures.clear()
        if self.owned:
            self.client.close()

    def _end_hosts(self, tokens: dict[str, str]) -> None:
        with contextlib.suppress(Exception):  # some workers may have left
            workers = list(tokens)
            self.client.run(end_hosts, list(tokens.values()), workers=workers, wait=False, on_error="ignore")


def _read(reply: Any) -> bytes | None:
    """Return a reply, or None for a lost worker; raise ClusterError if workers cannot reply at all."""
    if reply is None or isinstance(reply, bytes):
        return reply
    if type(reply).__name__ in ("KilledWorker", "CommClosedError", "CancelledError", "FutureCancelledError"):
        return None
    raise ClusterError(
        f"a Dask worker cannot evaluate: {type(reply).__name__}: {reply}. Is the same lmma installed there?"
    ) from reply


def connect(address: str) -> DaskTransport:
    """Return the cluster whose scheduler listens at ``address`` (host:port)."""
    from distributed import Client

    try:
        return DaskTransport(Client(address), owned=True)
    except OSError as error:
        raise ValueError(f"no Dask scheduler found at {address}: {error}") from None
