"""Messages by MPI: tasks of an ``mpi4py.futures.MPIPoolExecutor``, which go to whoever is free.

MPI cannot lose a worker and live, and cannot choose one. So a process that the run has not registered replies
so, and the task is sent again with a setup to register with. Crashes and hangs happen in children of the
workers, which MPI never notices.
"""

from __future__ import annotations

import contextlib
import queue
from typing import Any, final

from lmma.evaluation.cluster.transport import ClusterError, Transport, drained
from lmma.evaluation.cluster.worker_host import end_host, serve

ALL = "mpi"


@final
class MPITransport(Transport):
    """The processes of an MPI pool, as one worker with as many slots."""

    name = "MPI"
    addressed = False

    def __init__(self, executor: Any, *, own: bool = False) -> None:
        self.executor = executor
        self.own = own  # whether to end it in the end
        self._inbox: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()

    def workers(self) -> dict[str, int]:
        """Return how many processes there are."""
        self.executor.bootup(wait=True)
        return {ALL: int(self.executor.num_workers)}

    def send(self, request: int, worker: str, message: bytes) -> None:
        """Submit a task."""
        self.executor.submit(serve, message).add_done_callback(lambda done: self._inbox.put((request, done)))

    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return what has come in."""
        found = drained(self._inbox, seconds)
        return [(request, _read(future)) for request, future in found if not future.cancelled()]

    def close(self, tokens: dict[str, str]) -> None:
        """Ask as often as there are processes to end the host; one that misses it ends it later."""
        with contextlib.suppress(Exception):
            for token in tokens.values():
                for _ in range(int(self.executor.num_workers)):
                    self.executor.submit(end_host, token)
        if self.own:
            self.executor.shutdown(wait=True)


def _read(future: Any) -> bytes:
    error = future.exception()
    if error is not None:
        raise ClusterError(f"a process of MPI cannot serve: {type(error).__name__}: {error}") from error
    return bytes(future.result())


def connect(address: str = "") -> MPITransport:
    """Return the processes that ``mpiexec -n 5 python -m mpi4py.futures`` has started with this one."""
    from mpi4py import MPI
    from mpi4py.futures import MPIPoolExecutor

    if MPI.COMM_WORLD.Get_size() == 1:  # a pool would try to start others, and without mpiexec wait for ever
        raise ValueError(
            "workers='mpi' finds no process besides this one: start the run under MPI, as in "
            "mpiexec -n 5 python -m mpi4py.futures -m lmma minimize ... --cluster mpi"
        )
    return MPITransport(MPIPoolExecutor(), own=True)
