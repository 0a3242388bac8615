"""What carries messages to the workers of a cluster; each kind of cluster is one short file."""

from __future__ import annotations

import contextlib
import queue
from abc import ABC, abstractmethod
from typing import ClassVar, TypeVar

T = TypeVar("T")


class ClusterError(RuntimeError):
    """A cluster cannot go on evaluating; the message says why."""


class Transport(ABC):
    """Carries messages to the workers of a cluster and brings replies back.

    It must not deliver a message twice on its own; where its library does, the worker's reply says
    "unregistered" and nothing is evaluated.
    """

    name: ClassVar[str] = ""
    addressed: ClassVar[bool] = True  # whether a message can be sent to one worker, not just to any

    @abstractmethod
    def workers(self) -> dict[str, int]:
        """Return the names of all workers there are now, with the number of their slots."""

    @abstractmethod
    def send(self, request: int, worker: str, message: bytes) -> None:
        """Have ``worker`` serve ``message``; its reply comes with the number ``request``."""

    @abstractmethod
    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return requests with their replies, waited for at most so long; None if its worker is lost."""

    def cancel(self, request: int) -> None:  # noqa: B027 (a reply that is not waited for does no harm)
        """Do not wait for a reply any more."""

    def remove(self, worker: str) -> None:  # noqa: B027 (most workers go by themselves)
        """Let go of a worker that is lost."""

    @abstractmethod
    def close(self, tokens: dict[str, str]) -> None:
        """End the hosts with the given tokens, by worker, and what this transport has started itself."""


def drained(inbox: queue.SimpleQueue[T], seconds: float) -> list[T]:
    """Return all that is in ``inbox``, after waiting at most so long for something to be there."""
    found: list[T] = []
    with contextlib.suppress(queue.Empty):
        found.append(inbox.get(timeout=seconds) if seconds > 0 else inbox.get_nowait())
        while True:
            found.append(inbox.get_nowait())
    return found
