"""Seeds instead of vectors: workers of a cluster make their candidates themselves, and only values travel.

At n = 10^6 one generation of vectors is 360 MB. A strategy, however, is a function of its seed and of the
values it is told; with :class:`Replicated` each worker holds a replica of it, and what travels does not
depend on n.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation import pickling
from lmma.evaluation.base import Array, Evaluator, OnError, Values
from lmma.evaluation.cluster.address import find_engine
from lmma.evaluation.cluster.driver import Cluster, Errand, Member
from lmma.evaluation.cluster.transport import ClusterError, Engine
from lmma.evaluation.cluster.worker_host import Answer, Setup
from lmma.kernels.blas import blas_threads
from lmma.run.replicas.replica import (
    Event,
    News,
    Redrawn,
    Replica,
    State,
    Told,
    Work,
    checksum,
    kernel_name,
    take_state,
)
from lmma.strategies import Strategy
from lmma.strategies.parts.bounds import Box

KEPT = 64  # events kept: a worker that lags further behind gets the state again
HOPELESS = 3  # states in a row that a worker could do nothing with


@final
class Replicated:
    """A cluster each of whose workers holds a replica of the strategy; pass it as ``workers=``.

    Parameters
    ----------
    cluster : dask.distributed.Client, ray, or an address
        As ``workers=`` takes it. MPI pools cannot be used: there a task cannot be sent to one worker.
    initializer : callable, optional
        Called once in each process that evaluates. What it returns, unless that is None, becomes the last
        argument of ``fun``: ``fun(x, *args, data)``. Load data sets and start simulators here.
    check : int
        Generations between two comparisons of checksums; a replica that differs gets the state again.
    slots : int
        Evaluations at a time of one replica, for Ray; a worker of Dask has one for each of its threads.
    """

    def __init__(
        self,
        cluster: Any,
        *,
        initializer: Callable[[], Any] | None = None,
        check: int = 50,
        slots: int = 1,
    ) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be callable without arguments, got {initializer!r}")
        for name, value in (("check", check), ("slots", slots)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        self.cluster = cluster
        self.initializer = initializer
        self.check = int(check)
        self.slots = int(slots)

    def evaluator(
        self,
        fun: Callable[..., Any],
        args: tuple[Any, ...] = (),
        on_error: OnError = "worst",
        *,
        vectorized: bool = False,
        timeout: float | None = None,
        quorum: float = 1.0,
    ) -> Evaluator:
        """Return what evaluates ``fun`` on this cluster."""
        engine = find_engine(self.cluster, slots=self.slots)
        if engine is None or not engine.addressed:
            raise TypeError(
                "Replicated takes a Dask client, ray after ray.init(), or an address such as "
                f"dask://host:port; got {self.cluster!r}"
            )
        if self.initializer is not None:
            fun = pickling.Prepared(fun, self.initializer)  # type: ignore[assignment]
        return Seeds(
            fun, args, on_error, engine=engine, vectorized=vectorized, timeout=timeout, quorum=quorum,
            check=self.check,
        )  # fmt: skip


@final
class Seeds(Cluster):
    """Names candidates to members of a cluster that make them themselves."""

    agent = Replica

    def __init__(self, *args: Any, engine: Engine, check: int = 50, **options: Any) -> None:
        super().__init__(*args, engine=engine, **options)
        self.check = check
        self.resent = 0  # states sent to replicas that had one
        self._leg = 0
        self._strategy: Strategy | None = None
        self._box: Box | None = None
        self._events: list[Event] = []  # of this leg, the last few
        self._base = 0  # number of the first of them
        self._settled = 0  # number of events after which the strategy was last told
        self._told = 0  # generations of this leg
        self._checksum: tuple[int, str] | None = None
        self._state: State | None = None  # of this generation, if somebody needed it
        self._rows: npt.NDArray[np.intp] = np.arange(0)
        self._buffer: Array | None = None
        self._known: dict[str, int] = {}  # token -> position in this leg
        self._given: dict[str, int] = {}  # token -> states in a row without an evaluation

    # What the strategy goes through

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array | None:
        """Return the same array for every generation: nobody else is shown it."""
        if self._buffer is None or self._buffer.shape != (rows, n) or self._buffer.dtype != dtype:
            self._buffer = np.empty((rows, n), dtype=dtype)
        return self._buffer

    def attend(self, strategy: Strategy, box: Box | None) -> None:
        """Take note of who is asked; a strategy not seen before begins a leg, for which all get a state."""
        if strategy is not self._strategy:
            self._leg += 1
            self._strategy, self._box = strategy, box
            self._events.clear()
            self._known.clear()
            self._base = self._settled = self._told = 0
            self._checksum = None
        self._state = None
        self._rows = np.arange(strategy.popsize)
        if self._events and isinstance(self._events[-1], Told) and self._events[-1].check:
            self._checksum = (self._settled, checksum(strategy))

    def redrawn(self, rows: npt.NDArray[np.intp], attempt: int) -> None:
        """Take note of candidates drawn again."""
        self._rows = rows
        self._events.append(Redrawn(rows, attempt))

    def told(self, values: Values) -> None:
        """Pass the values on at once, so that replicas learn while the run does."""
        self._told += 1
        self._events.append(Told(values.copy(), self._told % self.check == 0))
        self._settled = self._base + len(self._events)
        excess = max(0, len(self._events) - KEPT)
        del self._events[:excess]
        self._base += excess
        for member in list(self._members.values()):
            if member.ready and not member.busy and self._reachable(member):
                self._send(member, self._work(member, None), Errand(member))

    # Letters

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        if self._members:
            self._listen(None, 0.0)  # who has caught up already
        return super().__call__(candidates)

    def _work(self, member: Member, rows: npt.NDArray[np.intp] | None) -> Work:
        since = self._known[member.token]
        return Work(self._leg, since, tuple(self._events[since - self._base :]), rows)

    def _task(self, member: Member, candidates: Array, rows: slice) -> Work:
        return self._work(member, self._rows[rows])

    def _reachable(self, member: Member) -> bool:
        return self._known.get(member.token, -1) >= self._base

    def _able(self, member: Member) -> bool:
        """Send the state to a member that has none, or too old a one; it gets tasks when it has answered."""
        if self._reachable(member):
            return True
        if self._given.get(member.token, 0) >= HOPELESS:
            raise ClusterError(f"worker {member.name} cannot follow the run, though it was sent the state")
        member.ready = False
        self._given[member.token] = self._given.get(member.token, 0) + 1
        self._send(member, self._greeting(member), Errand(member))
        return False

    def _greeting(self, member: Member) -> State:
        if self._strategy is None:
            raise ClusterError("Replicated needs lmma.minimize, which lets workers follow its strategy")
        if self._state is None:  # the same for all who come in this generation
            self._state = take_state(self._strategy, self._box, self._leg, self._settled)
        return self._state

    def _setup(self, member: Member) -> Setup:
        setup = super()._setup(member)
        setup.further.update(box=pickle.dumps(self._box), blas=blas_threads())
        return setup

    def _accept(self, member: Member, answer: Answer) -> bool:
        """Take in where a replica stands; use its values only if it stands where it should."""
        news: News | None = answer.news
        token, ours = member.token, self._checksum
        if news is None:
            return True
        if answer.what == "behind":
            self._send_again(member)
            return False
        if answer.what == "stale" or news.leg != self._leg:
            return False
        comparable = ours is not None and news.checksum is not None and news.checksum[0] == ours[0]
        if comparable and news.checksum != ours:
            self._warn(member, news)
            self._send_again(member)
            return False
        self._known[token] = max(news.position, self._known.get(token, -1))
        if answer.what == "done":
            self._given.pop(token, None)
        return True

    def _send_again(self, member: Member) -> None:
        """Have the state sent to a replica that has a useless one."""
        self.resent += 1
        self._known.pop(member.token, None)

    def _warn(self, member: Member, news: News) -> None:
        if not self.warnings:
            ours = kernel_name()
            why = (
                f"it has {news.kernels} kernels, this machine {ours}: use machines of one kind, or vectors"
                if news.kernels != ours
                else "its memory or its BLAS differs from this machine's"
            )
            self.warnings.append(f"the replica on {member.name} diverged and was sent the state again; {why}")


__all__ = ["ClusterError", "Replicated"]
