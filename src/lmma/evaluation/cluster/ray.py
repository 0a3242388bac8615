"""Ray transport: each worker is an actor, without restarts and task retries."""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import Any, final

from lmma.evaluation.cluster.messages import ClusterError, Transport
from lmma.evaluation.cluster.worker_host import serve


class Actor:
    """The process that runs a worker host."""

    def serve(self, message: bytes) -> bytes:
        """Return the reply to a message."""
        return serve(message)


@final
class RayTransport(Transport):
    """Actors on a Ray cluster, as many as its CPUs allow; more are started when nodes join.

    Parameters
    ----------
    ray : module
        The module ``ray``, after ``ray.init``.
    slots : int
        CPUs and concurrent evaluations per actor.
    owned : bool
        Whether to shut Ray down when the run ends.
    """

    name = "Ray"

    def __init__(self, ray: Any, *, slots: int = 1, owned: bool = False) -> None:
        if not ray.is_initialized():
            raise ValueError("workers=ray needs an initialised Ray: call ray.init() first")
        self.ray = ray
        self.slots = slots
        self.owned = owned
        # Two more concurrent calls than evaluations, for keep-alive messages
        options = {"num_cpus": slots, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": slots + 2}
        self._actor_class = ray.remote(**options)(Actor)
        self._actors: dict[str, Any] = {}
        self._names = itertools.count()
        self._requests: dict[Any, int] = {}  # by reference

    def workers(self) -> dict[str, int]:
        """Start actors for all CPUs and return them; an actor replies once it has been scheduled."""
        try:
            processors = int(self.ray.cluster_resources().get("CPU", 0))
        except Exception as error:
            raise ClusterError(f"connection to Ray lost: {error}") from error
        while len(self._actors) < processors // self.slots:
            self._actors[f"actor {next(self._names)}"] = self._actor_class.remote()
        return dict.fromkeys(self._actors, self.slots)

    def send(self, request: int, worker: str, message: bytes) -> None:
        """Call the actor without waiting."""
        self._requests[self._actors[worker].serve.remote(message)] = request

    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return the replies received so far; wait up to ``seconds`` for the first."""
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
                f"a Ray actor cannot evaluate: {error}. Is the same lmma installed there?"
            ) from error

    def cancel(self, request: int) -> None:
        """Stop waiting for a reply."""
        for reference in [reference for reference, number in self._requests.items() if number == request]:
            del self._requests[reference]

    def remove(self, worker: str) -> None:
        """Kill an actor, if it is still running."""
        actor = self._actors.pop(worker, None)
        if actor is not None:
            with contextlib.suppress(Exception):
                self.ray.kill(actor)

    def close(self, tokens: dict[str, str]) -> None:
        """Kill all actors, and with them their child processes."""
        for worker in list(self._actors):
            self.remove(worker)
        self._requests.clear()
        if self.owned:
            self.ray.shutdown()


def connect(address: str) -> RayTransport:
    """Return the cluster at ``address``: "auto" for the local one, or host:port of a Ray client server."""
    import ray

    owned = not ray.is_initialized()
    if owned:
        try:
            ray.init("auto" if address == "auto" else f"ray://{address}", log_to_driver=False)
        except (ConnectionError, ImportError) as error:
            raise ValueError(f"no Ray cluster found at {address}: {error}") from None
    return RayTransport(ray, owned=owned)
