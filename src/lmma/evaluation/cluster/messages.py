"""Messages between a run and the workers of a cluster, and the transport interface."""

from __future__ import annotations

import contextlib
import queue
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from lmma.evaluation.base import Values
from lmma.evaluation.batch import Failures

if TYPE_CHECKING:
    from lmma.evaluation.cluster.worker_host import HostSetup

T = TypeVar("T")

Status = Literal[
    "done",  # values are in the reply
    "ready",  # a keep-alive reply: nothing was evaluated
    "unregistered",  # this process has no host with that token
    "broken",  # the host cannot evaluate
    "behind",  # a replica lacks events
    "stale",  # a replica is ahead of the request
]


@dataclass(frozen=True)
class Message:
    """A message from a run to a worker."""

    token: str  # identifies one host in one process; unknown to a restarted worker
    payload: Any = None  # depends on the kind of host; None: only keep alive
    setup: HostSetup | None = None  # to create the host with


@dataclass(frozen=True)
class Reply:
    """The reply of a worker: values and failures by row, and deaths of its processes."""

    status: Status
    values: Values | None = None
    failures: Failures = field(default_factory=dict)
    deaths: int = 0  # of processes during this evaluation: 0, or 1 if it was aborted
    died: tuple[int, ...] = ()  # first row of the task during which a process died, if known
    unanswered: tuple[int, ...] = ()  # rows without value or failure after a death, including those
    seconds: float = 0.0  # per row
    constraint_values: dict[int, Values] = field(default_factory=dict)  # constraints, by row


class ClusterError(RuntimeError):
    """A cluster can no longer evaluate; the message gives the reason."""


class Transport(ABC):
    """Sends messages to the workers of a cluster and receives their replies.

    It must not deliver a message twice. If its library resends one to another process, that process replies
    "unregistered" and evaluates nothing.
    """

    name: ClassVar[str] = ""
    addressed: ClassVar[bool] = True  # whether a message can be sent to a specific worker

    @abstractmethod
    def workers(self) -> dict[str, int]:
        """Return the names of all current workers, with their number of slots."""

    @abstractmethod
    def send(self, request: int, worker: str, message: bytes) -> None:
        """Send ``message`` to ``worker``; its reply carries the number ``request``."""

    @abstractmethod
    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return request numbers with replies, None for a lost worker; wait at most ``seconds``."""

    def cancel(self, request: int) -> None:  # noqa: B027 (unexpected replies are ignored)
        """Stop waiting for a reply."""

    def remove(self, worker: str) -> None:  # noqa: B027 (optional)
        """Release a lost worker."""

    @abstractmethod
    def close(self, tokens: dict[str, str]) -> None:
        """Shut down the hosts with the given tokens (by worker) and anything the transport started."""


def drain(inbox: queue.SimpleQueue[T], seconds: float) -> list[T]:
    """Return all items in ``inbox``, after waiting at most ``seconds`` for the first."""
    found: list[T] = []
    with contextlib.suppress(queue.Empty):
        found.append(inbox.get(timeout=seconds) if seconds > 0 else inbox.get_nowait())
        while True:
            found.append(inbox.get_nowait())
    return found
