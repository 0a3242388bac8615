"""MPI transport: messages are tasks of an ``mpi4py.futures.MPIPoolExecutor``, run by any free process.

MPI does not survive the loss of a process and cannot address one. A process without a host for the run
replies "unregistered", and the task is sent again with a setup. Crashes and timeouts only affect children of
the MPI processes, which MPI does not notice.
"""

from __future__ import annotations

import contextlib
import queue
from typing import Any, final

from lmma.evaluation.cluster.messages import ClusterError, Transport, drain
from lmma.evaluation.cluster.worker_host import end_host, serve

ALL = "mpi"


@final
class MPITransport(Transport):
    """The processes of an MPI pool, treated as one worker with one slot per process."""

    name = "MPI"
    addressed = False

    def __init__(self, executor: Any, *, owned: bool = False) -> None:
        self.executor = executor
        self.owned = owned  # whether to shut it down when the run ends
        self._inbox: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()

    def workers(self) -> dict[str, int]:
        """Return the pool as one worker, with its number of processes."""
        self.executor.bootup(wait=True)
        return {ALL: int(self.executor.num_workers)}

    def send(self, request: int, worker: str, message: bytes) -> None:
        """Submit a task to any free process."""
        self.executor.submit(serve, message).add_done_callback(lambda done: self._inbox.put((request, done)))

    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return the replies received so far; wait up to ``seconds`` for the first."""
        found = drain(self._inbox, seconds)
        return [(request, _read(future)) for request, future in found if not future.cancelled()]

    def close(self, tokens: dict[str, str]) -> None:
        """Submit one shutdown task per process; a host that receives none expires after LEASE."""
        with contextlib.suppress(Exception):
            for token in tokens.values():
                for _ in range(int(self.executor.num_workers)):
                    self.executor.submit(end_host, token)
        if self.owned:
            self.executor.shutdown(wait=True)


def _read(future: Any) -> bytes:
    error = future.exception()
    if error is not None:
        raise ClusterError(f"an MPI process cannot evaluate: {type(error).__name__}: {error}") from error
    return bytes(future.result())


def connect(address: str = "") -> MPITransport:
    """Return the pool of processes started by ``mpiexec -n 5 python -m mpi4py.futures``."""
    from mpi4py import MPI
    from mpi4py.futures import MPIPoolExecutor

    if MPI.COMM_WORLD.Get_size() == 1:  # a pool would try to spawn processes, and hang without mpiexec
        raise ValueError(
            "workers='mpi' found no other MPI processes: start the run under mpiexec, for example "
            "mpiexec -n 5 python -m mpi4py.futures -m lmma minimize ... --cluster mpi"
        )
    return MPITransport(MPIPoolExecutor(), owned=True)
