"""Restarts with growing populations: IPOP and BIPOP, over any strategy.

A run is a sequence of legs, each with a strategy of its own. What the next leg looks like is a pure function
of the legs so far and of the run's key: nothing else has to be remembered, and a seed determines everything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.kernels import Key
from lmma.run.counters import Leg

Array = npt.NDArray[np.floating]

# Rules that end a leg but not the run; budgets, targets and wishes to stop end the run.
RESTART_AFTER = frozenset({"tolx", "tolfun", "stagnation", "flat", "diverged", "numerical", "allowance"})


@dataclass(frozen=True)
class Plan:
    """How the next leg starts."""

    number: int  # 0 for the first leg
    popsize: int
    sigma_factor: float = 1.0
    allowance: int | None = None  # evaluations of its own
    small: bool = False


@dataclass(frozen=True)
class Schedule(ABC):
    """When to start again and with how many candidates.

    Parameters
    ----------
    restarts : int
        How many legs may follow the first; for BIPOP, how many with a large population.
    factor : float
        By how much the population grows.
    """

    name: ClassVar[str] = ""
    restarts: int = 9
    factor: float = 2.0

    def __post_init__(self) -> None:
        if isinstance(self.restarts, bool) or self.restarts < 0:
            raise ValueError(f"restarts must be a number of restarts, 0 or more; got {self.restarts!r}")
        if not self.factor >= 1:
            raise ValueError(f"factor must be at least 1: populations grow; got {self.factor!r}")

    @abstractmethod
    def next(self, legs: Sequence[Leg], key: Key) -> Plan | None:
        """Return how to go on after ``legs``, or None if there is to be no further leg."""


@final
@dataclass(frozen=True)
class IPOP(Schedule):
    """Each restart has ``factor`` times the population (Auger and Hansen 2005)."""

    name = "ipop"

    def next(self, legs: Sequence[Leg], key: Key) -> Plan | None:
        """Return how to go on."""
        done = len(legs)
        if done > self.restarts:
            return None
        return Plan(done, round(legs[0].popsize * self.factor**done))


@final
@dataclass(frozen=True)
class BIPOP(Schedule):
    """Large populations as IPOP's, and small ones with small steps in between (Hansen 2009).

    Whichever of the two has used fewer evaluations goes next. A small population lies between the first
    leg's and half of the last large one, starts with down to a hundredth of sigma0, and gets half of the
    evaluations the last large leg used.
    """

    name = "bipop"

    def next(self, legs: Sequence[Leg], key: Key) -> Plan | None:
        """Return how to go on."""
        large = [leg for leg in legs if not leg.small]
        small = [leg for leg in legs if leg.small]
        first = legs[0].popsize
        used = [sum(leg.evaluations for leg in some) for some in (large[1:], small)]
        if len(large) > 1 and used[1] < used[0]:
            u = leg_generator(key, len(legs)).random(2)
            ratio = max(1.0, 0.5 * large[-1].popsize / first)
            return Plan(
                len(legs),
                popsize=int(first * ratio ** (u[0] ** 2)),
                sigma_factor=float(10.0 ** (-2 * u[1])),
                allowance=max(first, large[-1].evaluations // 2),
                small=True,
            )
        if len(large) > self.restarts:
            return None
        return Plan(len(legs), round(first * self.factor ** len(large)))


SCHEDULES: dict[str, type[Schedule]] = {cls.name: cls for cls in (IPOP, BIPOP)}


def schedule(restarts: Any) -> Schedule:
    """Return what a user means by ``restarts``: a number, "ipop", "bipop", "bipop:5", or a schedule."""
    if isinstance(restarts, Schedule):
        return restarts
    if isinstance(restarts, str):
        name, _, count = restarts.partition(":")
        if name in SCHEDULES and (count == "" or count.isdigit()):
            return SCHEDULES[name](int(count)) if count else SCHEDULES[name]()
    elif isinstance(restarts, int | np.integer) and not isinstance(restarts, bool) and restarts >= 0:
        return IPOP(int(restarts))
    raise ValueError(
        "restarts must be a number of restarts (0 for none), 'ipop', 'bipop', or one of these with a number "
        f"such as 'bipop:5'; got {restarts!r}"
    )


def leg_key(key: Key, number: int) -> Key:
    """Return the key of a leg; the first has the run's own, so that restarts do not change it."""
    if number == 0:
        return key
    words = np.random.SeedSequence([*key, number]).generate_state(2, np.uint64)
    return int(words[0]), int(words[1])


def leg_generator(key: Key, number: int) -> np.random.Generator:
    """Return a generator for choices before a leg, apart from the random numbers inside it."""
    return np.random.default_rng(np.random.SeedSequence([*key, number, 1]))


def leg_start(x0: Array, spread: Array | float, key: Key, number: int, box: Any) -> Array:
    """Return where a leg starts: uniformly in a finite box, normally around ``x0`` where there is none."""
    if number == 0:
        return x0
    generator = leg_generator(key, number)
    generator.random(2)  # BIPOP's
    start = x0 + spread * generator.standard_normal(len(x0))
    if box is not None:
        width = box.upper - box.lower
        closed = np.isfinite(width)
        uniform = generator.random(len(x0))
        start = box.inside(start.astype(box.lower.dtype))
        start[closed] = box.lower[closed] + uniform[closed] * width[closed]
    return start
