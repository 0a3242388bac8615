"""Restarts with growing populations: IPOP and BIPOP, over any strategy.

A run with restarts is a sequence of single runs, each with a strategy of its own. What the next one looks
like is a pure function of those so far and of the run's key: nothing else has to be remembered, and a seed
determines everything. Which endings allow a restart is said beside each of them, in ``stopping.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.kernels import Key
from lmma.kernels.words import shown
from lmma.run.counters import SingleRun
from lmma.strategies import Strategy
from lmma.strategies.parts import memory

Array = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Plan:
    """How the next strategy starts."""

    number: int  # 0 for the first, then that of the restart
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
        How many restarts there may be; for BIPOP, how many with a large population.
    factor : float
        By how much the population grows.
    """

    name: ClassVar[str] = ""
    restarts: int = 9
    factor: float = 2.0

    def __post_init__(self) -> None:
        if isinstance(self.restarts, bool) or self.restarts < 0:
            raise ValueError(f"restarts must be a number of restarts, 0 or more; got {shown(self.restarts)}")
        if not self.factor >= 1:
            raise ValueError(f"factor must be at least 1: populations grow; got {shown(self.factor)}")

    @abstractmethod
    def next(self, runs: Sequence[SingleRun], key: Key) -> Plan | None:
        """Return how to go on after ``runs``, or None if there is to be no further restart."""

    def populations(self, first: int, limit: float) -> list[int]:
        """Return the growing populations after the ``first``, as far as they stay below a limit."""
        sizes: list[int] = []
        while len(sizes) < self.restarts and self.factor > 1:
            size = round(first * self.factor ** (len(sizes) + 1))
            if size > limit:
                break
            sizes.append(size)
        return sizes


@final
@dataclass(frozen=True)
class IPOP(Schedule):
    """Each restart has ``factor`` times the population (Auger and Hansen 2005)."""

    name = "ipop"

    def next(self, runs: Sequence[SingleRun], key: Key) -> Plan | None:
        """Return how to go on."""
        done = len(runs)
        if done > self.restarts:
            return None
        return Plan(done, round(runs[0].popsize * self.factor**done))


@final
@dataclass(frozen=True)
class BIPOP(Schedule):
    """Large populations as IPOP's, and small ones with small steps in between (Hansen 2009).

    Whichever of the two has used fewer evaluations goes next. A small population lies between the first
    and half of the last large one, starts with down to a hundredth of sigma0, and gets half of the
    evaluations the last large one used.
    """

    name = "bipop"

    def next(self, runs: Sequence[SingleRun], key: Key) -> Plan | None:
        """Return how to go on."""
        large = [run for run in runs if not run.small]
        small = [run for run in runs if run.small]
        first = runs[0].popsize
        used = [sum(run.evaluations for run in some) for some in (large[1:], small)]
        if len(large) > 1 and used[1] < used[0]:
            u = restart_generator(key, len(runs)).random(2)
            ratio = max(1.0, 0.5 * large[-1].popsize / first)
            return Plan(
                len(runs),
                popsize=int(first * ratio ** (u[0] ** 2)),
                sigma_factor=float(10.0 ** (-2 * u[1])),
                allowance=max(first, large[-1].evaluations // 2),
                small=True,
            )
        if len(large) > self.restarts:
            return None
        return Plan(len(runs), round(first * self.factor ** len(large)))


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
        f"such as 'bipop:5'; got {shown(restarts)}"
    )


def memory_warning(schedule: Schedule, strategy: Strategy, first: int, maxfevals: int | None) -> str:
    """Return what is to be said of restarts for which there is no memory at present; empty if all fit."""
    largest = 2**50 // strategy.n  # candidates that no machine holds
    sizes = schedule.populations(first, largest if maxfevals is None else min(largest, maxfevals))
    itemsize = strategy.dtype.itemsize
    needed = [strategy.memory(strategy.n, size, itemsize) for size in sizes]
    if not needed or needed[-1] < memory.SMALL:
        return ""
    there = memory.available_memory()
    if there is None or needed[-1] <= there:
        return ""
    fit = sum(size <= there for size in needed)
    return (
        f"restarts grow to a population of {sizes[-1]:,}, for which {strategy.name} needs about "
        f"{memory.readable(needed[-1])} of memory; {memory.readable(there)} are free. If it comes to that "
        f"the run ends with the best so far: {fit} of {len(sizes)} growing populations fit"
    )


def restart_key(key: Key, number: int) -> Key:
    """Return the key of a restart; number 0 has the run's own, so that restarts do not change it."""
    if number == 0:
        return key
    words = np.random.SeedSequence([*key, number]).generate_state(2, np.uint64)
    return int(words[0]), int(words[1])


def restart_generator(key: Key, number: int) -> np.random.Generator:
    """Return a generator for choices before a restart, apart from the random numbers after it."""
    return np.random.default_rng(np.random.SeedSequence([*key, number, 1]))


def restart_point(x0: Array, spread: Array | float, key: Key, number: int, box: Any) -> Array:
    """Return where a restart begins: uniformly in a finite box, normally around ``x0`` without one."""
    if number == 0:
        return x0
    generator = restart_generator(key, number)
    generator.random(2)  # BIPOP's
    start = x0 + spread * generator.standard_normal(len(x0))
    if box is not None:
        width = box.upper - box.lower
        closed = np.isfinite(width)
        uniform = generator.random(len(x0))
        start = box.inside(start.astype(box.lower.dtype))
        start[closed] = box.lower[closed] + uniform[closed] * width[closed]
    return start
