"""One run from start to end: its strategies one after another, and its state as something to save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.evaluation import Evaluator, Failure
from lmma.kernels import Key
from lmma.run.counters import Leg, Tally
from lmma.run.fingerprint import differences
from lmma.run.generation import Guard, run
from lmma.run.observers import Observer, Recorder
from lmma.run.restarts import RESTART_AFTER, Plan, Schedule, leg_key, leg_start
from lmma.run.rules import Rule, rules_for
from lmma.run.stopping import Limits, Stop
from lmma.strategies import Strategy
from lmma.strategies.parts.bounds import Box

if TYPE_CHECKING:  # most runs have no checkpoint: what it needs is imported when one is asked for
    from lmma.run.checkpoint import Arrays

Array = npt.NDArray[np.floating]
Make = Callable[[Array, Any, int | None, Key], Strategy]  # x0, sigma0, popsize, key


class Session:
    """A run with restarts: all that happens in it, and all that must be kept to go on.

    Parameters
    ----------
    first : Strategy
        The strategy of the first leg, ready to start.
    make : callable
        Makes the strategies of later legs from x0, sigma0, popsize and key.
    x0, sigma0
        Where later legs start from, inside the box.
    evaluate, limits, box, schedule
        The parts of the run.
    stagnation : bool
        Whether a leg without progress ends.
    identity : callable
        Returns what tells this run from others, for checkpoints.

    Attributes
    ----------
    recorder : Recorder or None
        A record that is to survive an interruption.
    guard : callable or None
        Evaluates instead of ``evaluate`` itself, for who must know when that happens.
    """

    def __init__(
        self,
        first: Strategy,
        make: Make,
        x0: Array,
        sigma0: Any,
        *,
        evaluate: Evaluator,
        limits: Limits,
        box: Box | None,
        schedule: Schedule,
        stagnation: bool = True,
        identity: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.strategy = first
        self.key = first.key
        self.make = make
        self.x0, self.sigma0 = x0, sigma0
        self.evaluate, self.limits, self.box, self.schedule = evaluate, limits, box, schedule
        self.stagnation = stagnation
        self.identity = identity
        self.recorder: Recorder | None = None
        self.guard: Guard | None = None
        self.warnings: list[str] = []
        self.tally = Tally()
        self.plan = Plan(0, first.popsize)
        self.rules: list[Rule] = rules_for(first, stagnation=stagnation)

    def run(self, observers: Iterable[Observer] = (), *, catch_interrupt: bool = False) -> Stop:
        """Go through all legs; return why the last one ended."""
        observers = tuple(observers)
        while True:
            stop = run(
                self.strategy, self.evaluate, self.limits, observers,
                box=self.box, rules=self.rules, tally=self.tally, guard=self.guard,
                catch_interrupt=catch_interrupt,
            )  # fmt: skip
            if stop.reason not in RESTART_AFTER:
                return stop
            plan = self.schedule.next(self.legs(stop.reason), self.key)
            if plan is None:
                return stop
            self.tally.legs = self.legs(stop.reason)
            self.begin(plan)

    def legs(self, reason: str) -> list[Leg]:
        """Return all legs, the present one as if it ended now for ``reason``."""
        used = self.tally.evaluations - sum(leg.evaluations for leg in self.tally.legs)
        now = Leg(self.strategy.popsize, used, self.strategy.best_fun, reason, self.plan.small)
        return [*self.tally.legs, now]

    def begin(self, plan: Plan) -> None:
        """Start a leg."""
        key, number = self.key, plan.number
        start = leg_start(self.x0, self.sigma0, key, number, self.box)
        if self.box is not None:
            start = self.box.outside(start)
        sigma = np.asarray(self.sigma0) * plan.sigma_factor
        self.strategy = self.make(start, sigma, plan.popsize, leg_key(key, number))
        self.rules = rules_for(self.strategy, stagnation=self.stagnation, allowance=plan.allowance)
        self.plan = plan

    # State

    def gather(self) -> tuple[dict[str, Any], Arrays]:
        """Return the run as a header for JSON and named arrays."""
        tally = {name: getattr(self.tally, name) for name in _COUNTS}
        arrays: Arrays = {f"strategy.{k}": np.asarray(v) for k, v in self.strategy.get_state().items()}
        for rule in self.rules:
            arrays |= {f"rule.{rule.name}.{k}": np.asarray(v) for k, v in rule.get_state().items()}
        if self.box is not None:
            arrays |= {f"box.{k}": np.asarray(v) for k, v in self.box.get_state().items()}
        if self.recorder is not None:
            arrays |= {f"history.{k}": np.asarray(v) for k, v in self.recorder.get_state().items()}
        if self.tally.best_x is not None:
            arrays["best_x"] = self.tally.best_x
        evaluate = self.evaluate
        header = {
            "identity": self.identity(),
            "kernels": _kernels(),
            "key": [str(word) for word in self.key],  # 64 bits: more than a number of JSON can hold
            "plan": asdict(self.plan),
            "tally": tally,
            "legs": [asdict(leg) for leg in self.tally.legs],
            "failures": dict(evaluate.failures),
            "errors": [asdict(error) for error in evaluate.errors],
            "dropped": evaluate.dropped,
            "deaths": evaluate.deaths,
        }
        return header, arrays

    def restore(self, header: dict[str, Any], arrays: Arrays, *, any_key: bool) -> None:
        """Go on from a state of :meth:`gather`, unless it is of another run.

        With ``any_key`` the state's seed is taken; otherwise it must be the one of this run.
        """
        key = tuple(int(word) for word in header["key"])
        unlike = differences(header["identity"], self.identity())
        if not any_key and key != self.key:
            unlike.append("rng (the seed) differs")
        if unlike:
            from lmma.run.checkpoint import CheckpointError

            raise CheckpointError(
                f"it is of another run: {'; '.join(unlike)}. Remove the file to start anew, or name another"
            )
        if header["kernels"] != _kernels():
            self.warnings.append(
                f"the checkpoint was written with {header['kernels']} kernels and goes on with "
                f"{_kernels()}: the last bits of numbers may differ from an unbroken run"
            )
        self.key = (key[0], key[1])
        self.tally = Tally(**header["tally"], legs=[Leg(**leg) for leg in header["legs"]])
        if "best_x" in arrays:
            self.tally.best_x = arrays["best_x"]
        if header["plan"]["number"] != 0:
            self.begin(Plan(**header["plan"]))
        self.strategy.set_state(_under("strategy.", arrays))
        for rule in self.rules:
            if remembered := _under(f"rule.{rule.name}.", arrays):
                rule.set_state(remembered)
        if self.box is not None:
            self.box.set_state(_under("box.", arrays))
        if self.recorder is not None and (kept := _under("history.", arrays)):
            self.recorder.set_state(kept)
        self.evaluate.failures = Counter(header["failures"])
        self.evaluate.errors = [Failure(**error) for error in header["errors"]]
        self.evaluate.dropped, self.evaluate.deaths = header["dropped"], header["deaths"]


_COUNTS = ("evaluations", "generation", "failures", "late", "failing", "best_fun", "seconds")


def _kernels() -> str:
    return kernels.backend().partition(",")[0]  # without the number of threads, which changes no bit


def _under(prefix: str, arrays: Arrays) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
