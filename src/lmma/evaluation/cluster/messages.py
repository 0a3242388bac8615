"""What travels between a run and the workers of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lmma.evaluation.base import Values
from lmma.evaluation.batch import Failures

if TYPE_CHECKING:
    from lmma.evaluation.cluster.worker_host import HostSetup

Status = Literal[
    "done",  # values are in the reply
    "ready",  # a sign of life: there was nothing to evaluate
    "unregistered",  # this process has no host with that token
    "broken",  # it cannot evaluate at all
    "behind",  # a replica lacks events
    "stale",  # a replica is further than the request
]


@dataclass(frozen=True)
class Message:
    """What a run sends to a worker."""

    token: str  # names one host in one process: a worker that was started anew does not know it
    payload: Any = None  # what its kind of host evaluates; None only asks for a sign of life
    setup: HostSetup | None = None  # to register with


@dataclass(frozen=True)
class Reply:
    """What a worker sends back."""

    status: Status
    values: Values | None = None
    failures: Failures = field(default_factory=dict)
    deaths: int = 0  # of processes, under this evaluation: none or one, which ends it
    died: tuple[int, ...] = ()  # the first row of the task under which one died, if that is known
    unanswered: tuple[int, ...] = ()  # rows that have neither a value nor a failure then, those among them
    seconds: float = 0.0  # per row
    beside: dict[int, Values] = field(default_factory=dict)  # constraints, by row
