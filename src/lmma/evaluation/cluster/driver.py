"""Evaluation by a cluster: who is there, who has what, what is lost and begun again.

Nothing here knows Dask from Ray or MPI; that is an engine, one short file each. A letter goes to one
member and carries candidates; what comes back is counted here. No engine may run a letter twice on its own:
each names an agent by a token that only one process knows, and any other answers "unknown".
"""

from __future__ import annotations

import math
import pickle
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lmma.evaluation import pickling
from lmma.evaluation.base import Array, Evaluator, OnError, Values
from lmma.evaluation.cluster.transport import ClusterError, Engine
from lmma.evaluation.cluster.worker_host import LEASE, Agent, Answer, Letter, Setup
from lmma.evaluation.pool.batch import Round, settled

LOOK = 1.0  # seconds between two looks at who is there
PATIENCE = 600.0  # seconds to wait for a first, or for another, worker
STILL_BORN = 20  # workers in a row that end before they have answered, after which there is no hope
CHUNKS = 4  # at least so many letters for each slot and generation, where there are as many candidates
QUICK = 0.02  # seconds of work worth a letter
SMOOTH = 4  # answers over which the time of an evaluation is averaged


@dataclass(eq=False)
class Member:
    """A worker of the cluster, as seen from the run."""

    name: str
    slots: int
    token: str
    number: int = 0  # in the order in which they came
    ready: bool = False  # whether it has answered its first letter
    busy: int = 0  # evaluations it has been sent and not answered
    heard: float = 0.0  # when a letter was last sent to it
    strangers: int = 0  # processes behind this name that have not been introduced to the run


@dataclass(frozen=True)
class Errand:
    """What a letter was sent for."""

    member: Member
    generation: int = -1  # none: it carries no candidates
    first: int = 0


class Cluster(Evaluator):
    """Sends candidates to the members of a cluster.

    Parameters
    ----------
    fun, args, on_error
        As for every evaluator; ``lmma`` and what ``fun`` imports must be installed on the workers.
    engine : Engine
        The cluster.
    vectorized : bool
        Whether ``fun`` takes rows; each worker then gets blocks of them.
    timeout : float, optional
        Seconds after which an evaluation is given up: its process is killed, its worker is not.
    quorum : float
        Share of a generation that must have returned before it closes; what comes later is dropped.
    """

    agent: type[Agent] = Agent

    def __init__(
        self,
        fun: Callable[..., Any],
        args: tuple[Any, ...] = (),
        on_error: OnError = "worst",
        *,
        engine: Engine,
        vectorized: bool = False,
        timeout: float | None = None,
        quorum: float = 1.0,
    ) -> None:
        super().__init__(on_error)
        self.engine = engine
        self.vectorized = vectorized
        self.timeout = timeout
        self.quorum = quorum
        self.sent = self.received = 0  # bytes of letters and answers
        self._objective = pickling.dumps((fun, args))
        self._members: dict[str, Member] = {}
        self._free: set[Member] = set()  # those with a slot to spare, ready or not
        self._met = 0
        self._still_born = 0  # members in a row that were lost before they had answered
        self._errands: dict[int, Errand] = {}  # by ticket
        self._tickets = 0
        self._generation = 0
        self._pace = 1.0  # seconds an evaluation takes, about
        self._look = 0.0
        self._alone = math.inf  # when there last was somebody

    # A generation

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        try:
            self._generation += 1
            todo = self._round(len(candidates))
            while not todo.closed:
                if time.monotonic() >= self._look:
                    self._meet(todo)
                    self._look = time.monotonic() + LOOK
                self._hand_out(todo, candidates)
                self._listen(todo, max(0.0, self._look - time.monotonic()))
        except BaseException:
            self.close()  # Ctrl-C, or nobody left: nothing may go on evaluating
            raise
        self.dropped += int(todo.open.sum())
        return settled(self, todo)

    def _round(self, rows: int) -> Round:
        if not self._members:
            self._meet(None)  # how many there are decides how rows are grouped
        slots = max(1, sum(member.slots for member in self._members.values()))
        block = rows // (CHUNKS * slots)
        if not self.vectorized:  # letters cost milliseconds: several rows in one if they cost less
            block = min(block, int(QUICK / self._pace))
        return Round(rows, max(1, block), self.quorum)

    def _hand_out(self, todo: Round, candidates: Array) -> None:
        """Give each free slot a task, every member one before anyone gets a second."""
        if not todo.queue:
            return
        free = [
            (place, member.number, member)
            for member in list(self._free)
            if member.ready and self._able(member)
            for place in range(member.busy, member.slots)
        ]
        free.sort(key=lambda entry: entry[:2])
        handed, todo.queue = todo.queue[: len(free)], todo.queue[len(free) :]
        for (_, _, member), first in zip(free, handed, strict=False):
            rows = slice(first, first + todo.rows_at(first))
            setup = self._setup(member) if member.strangers else None
            member.strangers -= bool(member.strangers)
            task = self._task(member, candidates, rows)
            self._send(member, task, Errand(member, self._generation, first), setup)
            member.busy += 1
            if member.busy == member.slots:
                self._free.discard(member)

    def _able(self, member: Member) -> bool:
        """Return whether ``member`` can be given tasks now."""
        return True

    def _task(self, member: Member, candidates: Array, rows: slice) -> Any:
        """Return what ``member`` needs to evaluate ``rows``."""
        return candidates[rows]

    def _listen(self, todo: Round | None, seconds: float) -> None:
        """Take in answers as they come, for at most so long."""
        for ticket, words in self.engine.answers(seconds):
            errand = self._errands.pop(ticket, None)
            if errand is None:
                continue  # of somebody who was thought to be lost
            if errand.generation >= 0:
                errand.member.busy -= 1
                self._free.add(errand.member)
            if words is None:
                self._lose(errand.member, todo, errand)
                continue
            self.received += len(words)
            self._hear(errand, pickle.loads(words), todo)

    def _hear(self, errand: Errand, answer: Answer, todo: Round | None) -> None:
        member = errand.member
        if answer.what == "broken":
            raise _cannot_serve(member.name, *answer.problems[0][:3])
        if answer.what == "unknown":
            if self.engine.addressed:
                self._lose(member, todo, errand)
            else:
                member.strangers += 1
                self._again(errand, todo)
            return
        member.ready = True
        self._still_born = 0
        self.deaths += answer.deaths
        if answer.what == "done":
            self._pace += (answer.seconds - self._pace) / SMOOTH
        if not self._accept(member, answer):
            self._again(errand, todo)
            return
        if todo is None or not self._wanted(errand, todo):
            return
        assert answer.values is not None
        todo.close(errand.first, answer.values)
        for row, problem in answer.problems.items():
            todo.fail(errand.first + row, *problem)

    def _accept(self, member: Member, answer: Answer) -> bool:
        """Return whether values of ``member`` may be used."""
        return True

    def _wanted(self, errand: Errand, todo: Round) -> bool:
        return errand.generation == self._generation and bool(todo.open[errand.first])

    def _again(self, errand: Errand, todo: Round | None) -> None:
        """Put a task that was refused, not begun, back in front."""
        if todo is not None and self._wanted(errand, todo):
            todo.queue.insert(0, errand.first)

    # Members

    def _meet(self, todo: Round | None) -> None:
        """Greet those who have come, and take back what those who have gone had."""
        there = self.engine.members()
        for name in [name for name in self._members if name not in there]:
            self._lose(self._members[name], todo)
        for name, slots in there.items():
            if name not in self._members and slots > 0:
                self._met += 1
                self._members[name] = self._greet(Member(name, slots, uuid.uuid4().hex, self._met))
                self._free.add(self._members[name])
        now = time.monotonic()
        for member in self._members.values():
            idle = member.ready and not member.busy and now - member.heard > LEASE / 4
            if idle and self.engine.addressed:
                self._send(member, None, Errand(member))  # so that it does not think the run has ended
        if math.isinf(self._alone) or any(member.ready for member in self._members.values()):
            self._alone = now
        elif now - self._alone > PATIENCE:
            raise ClusterError(
                f"{self.engine.name} has had no worker that answers for {PATIENCE:g} s: start some, then "
                "start the run again from its checkpoint"
            )

    def _greet(self, member: Member) -> Member:
        if not self.engine.addressed:
            member.ready, member.strangers = True, member.slots
            return member
        self._send(member, self._greeting(member), Errand(member), self._setup(member))
        return member

    def _greeting(self, member: Member) -> Any:
        """Return what a new member must know besides its setup."""
        return None

    def _setup(self, member: Member) -> Setup:
        slots = member.slots if self.engine.addressed else 1
        return Setup(self.agent, self._objective, self.vectorized, self.timeout, slots)

    def _lose(self, member: Member, todo: Round | None, *errands: Errand) -> None:
        """Forget a member, and have others evaluate what it had."""
        lost = list(errands)
        for ticket in [t for t, errand in self._errands.items() if errand.member is member]:
            lost.append(self._errands.pop(ticket))
            self.engine.give_up(ticket)
        lost = [errand for errand in lost if todo is not None and self._wanted(errand, todo)]
        self.deaths += bool(lost)
        for errand in lost:
            assert todo is not None
            # Rows that may have killed a worker go on alone
            for first in [errand.first] if self.vectorized else todo.split(errand.first):
                todo.begin_again(first, "of the cluster")
        self._free.discard(member)
        self._still_born += not member.ready
        if self._still_born > STILL_BORN:
            raise ClusterError(
                f"{self._still_born} workers of {self.engine.name} in a row ended before they could answer, "
                f"the last {member.name}: is the same lmma installed there, and enough memory?"
            )
        if self._members.get(member.name) is member:
            del self._members[member.name]
            self.engine.dismiss(member.name)
        self._look = 0.0

    def _send(self, member: Member, body: Any, errand: Errand, setup: Setup | None = None) -> None:
        letter = pickle.dumps(Letter(member.token, body, setup), protocol=5)
        self.sent += len(letter)
        self._tickets += 1
        self._errands[self._tickets] = errand
        member.heard = time.monotonic()
        self.engine.send(self._tickets, member.name, letter)

    def close(self) -> None:
        """End what runs on the cluster for this run; the cluster itself stays up."""
        tokens = {name: member.token for name, member in self._members.items()}
        for ticket in self._errands:
            self.engine.give_up(ticket)
        self._members.clear()
        self._free.clear()
        self._errands.clear()
        self._look = 0.0
        self.engine.close(tokens)


def _cannot_serve(member: str, kind: str, message: str, trace: str) -> ClusterError:
    error = ClusterError(f"worker {member} cannot evaluate fun: {kind}: {message}")
    error.add_note(f"On the worker:\n{trace}")
    return error
