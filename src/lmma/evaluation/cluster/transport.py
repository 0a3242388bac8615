"""What carries letters to the workers of a cluster; each kind of cluster is one short file."""

from __future__ import annotations

import contextlib
import queue
from abc import ABC, abstractmethod
from typing import ClassVar, TypeVar

T = TypeVar("T")


class ClusterError(RuntimeError):
    """A cluster cannot go on evaluating; the message says why."""


class Engine(ABC):
    """What carries letters to members of a cluster and brings answers back."""

    name: ClassVar[str] = ""
    addressed: ClassVar[bool] = True  # whether a letter can be sent to one member, not just to anyone

    @abstractmethod
    def members(self) -> dict[str, int]:
        """Return the names of those who are there now, with the number of their slots."""

    @abstractmethod
    def send(self, ticket: int, member: str, letter: bytes) -> None:
        """Have ``member`` serve ``letter``."""

    @abstractmethod
    def answers(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return tickets with their answers, waited for at most so long; None if its member is lost."""

    def give_up(self, ticket: int) -> None:  # noqa: B027 (an answer that is not waited for does no harm)
        """Do not wait for an answer any more."""

    def dismiss(self, member: str) -> None:  # noqa: B027 (most members go by themselves)
        """Let go of a member that is lost."""

    @abstractmethod
    def close(self, members: dict[str, str]) -> None:
        """End the agents with the given tokens, by member, and what this engine has started itself."""


def drained(box: queue.SimpleQueue[T], seconds: float) -> list[T]:
    """Return all that lies in ``box``, after waiting at most so long for something to be there."""
    found: list[T] = []
    with contextlib.suppress(queue.Empty):
        found.append(box.get(timeout=seconds) if seconds > 0 else box.get_nowait())
        while True:
            found.append(box.get_nowait())
    return found
