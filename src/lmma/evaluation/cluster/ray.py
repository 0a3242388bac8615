"""Messages by Ray: each worker is an actor, which Ray neither restarts nor asks twice."""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import Any, final

from lmma.evaluation.cluster.transport import ClusterError, Transport
from lmma.evaluation.cluster.worker_host import serve


class Actor:
    """The process in which a worker host lives."""

    def serve(self, message: bytes) -> bytes:
        """Reply to a message."""
        return serve(message)


@final
class RayTransport(Transport):
    """Actors on a Ray cluster, as many as its processors allow; more of them when nodes join.

    Parameters
    ----------
    ray : module
        ``ray`` itself, after ``ray.init``.
    slots : int
        Processors, and evaluations at a time, of an actor.
    own : bool
        Whether to end the session in the end.
    """

    name = "Ray"

    def __init__(self, ray: Any, *, slots: int = 1, own: bool = False) -> None:
        if not ray.is_initialized():
            raise ValueError("workers=ray needs a session: call ray.init() first")
        self.ray = ray
        self.slots = slots
        self.own = own
        # Beyond evaluations, room for signs of life
        options = {"num_cpus": slots, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": slots + 2}
        self._actor_class = ray.remote(**options)(Actor)
        self._actors: dict[str, Any] = {}
        self._names = itertools.count()
        self._requests: dict[Any, int] = {}  # by reference

    def workers(self) -> dict[str, int]:
        """Return all actors; those that wait for a processor are slow to reply, no more."""
        try:
            processors = int(self.ray.cluster_resources().get("CPU", 0))
        except Exception as error:
            raise ClusterError(f"Ray cannot be reached any more: {error}") from error
        while len(self._actors) < processors // self.slots:
            self._actors[f"actor {next(self._names)}"] = self._actor_class.remote()
        return dict.fromkeys(self._actors, self.slots)

    def send(self, request: int, worker: str, message: bytes) -> None:
        """Call the actor."""
        self._requests[self._actors[worker].serve.remote(message)] = request

    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return what has come in."""
        ray = self.ray
        if not self._requests:
            time.sleep(seconds)
            return []
        ready, rest = ray.wait(list(self._requests), num_returns=1, timeout=seconds)
        if ready and rest:
            ready += ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        return [(self._requests.pop(reference), self._read(reference)) for reference in ready]

    def _read(self, reference: Any) -> bytes | None:
        exceptions = self.ray.exceptions
        try:
            return bytes(self.ray.get(reference))
        except (exceptions.RayActorError, exceptions.ObjectLostError, exceptions.WorkerCrashedError):
            return None
        except Exception as error:
            raise ClusterError(
                f"an actor of Ray cannot serve: {error}. Is the same lmma installed there?"
            ) from error

    def cancel(self, request: int) -> None:
        """Stop waiting for a reply."""
        for reference in [reference for reference, number in self._requests.items() if number == request]:
            del self._requests[reference]

    def remove(self, worker: str) -> None:
        """End an actor, or make sure that it has ended."""
        actor = self._actors.pop(worker, None)
        if actor is not None:
            with contextlib.suppress(Exception):
                self.ray.kill(actor)

    def close(self, tokens: dict[str, str]) -> None:
        """End all actors, and their processes with them."""
        for worker in list(self._actors):
            self.remove(worker)
        self._requests.clear()
        if self.own:
            self.ray.shutdown()


def connect(address: str) -> RayTransport:
    """Return the cluster at ``address``: "auto" for this machine's, or host:port of its client server."""
    import ray

    own = not ray.is_initialized()
    if own:
        try:
            ray.init("auto" if address == "auto" else f"ray://{address}", log_to_driver=False)
        except (ConnectionError, ImportError) as error:
            raise ValueError(f"no Ray cluster answers at {address}: {error}") from None
    return RayTransport(ray, own=own)
