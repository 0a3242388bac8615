"""Restarts with growing populations: IPOP and BIPOP, for any strategy.

A run with restarts is a sequence of single runs, each with a new strategy. The plan of the next one is a pure
function of the previous ones and of the run's key, so no other state is saved and a seed determines the
whole run. ``stopping.py`` defines which endings allow a restart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma._text import readable_size, shown
from lmma.kernels import Key
from lmma.methods import Strategy
from lmma.numerics import memory
from lmma.run.state import Plan, SingleRun

Array = npt.NDArray[np.floating]

SLOPES_SHARE = 4  # a restart of quasi-Newton may use one in so many of all evaluations


@dataclass(frozen=True)
class Schedule(ABC):
    """The number of restarts, and the population of each.

    Parameters
    ----------
    restarts : int
        Maximum number of restarts; for BIPOP, of those with a large population.
    factor : float
        Growth factor of the population.
    """

    name: ClassVar[str] = ""
    restarts: int = 9
    factor: float = 2.0

    def __post_init__(self) -> None:
        if isinstance(self.restarts, bool) or self.restarts < 0:
            raise ValueError(f"restarts must be a number of restarts >= 0, got {shown(self.restarts)}")
        if not self.factor >= 1:
            raise ValueError(f"factor must be at least 1, got {shown(self.factor)}")

    def next(self, runs: Sequence[SingleRun], key: Key) -> Plan | None:
        """Return the plan for the restart after ``runs``, or None.

        A portfolio restarts its two searches in turn, such that quasi-Newton gets its share of evaluations.
        Restarts of quasi-Newton are not counted.
        """
        if not runs[0].begin:
            return self.next_population(runs, key)
        total, slopes = sum(run.evaluations for run in runs), sum(run.by_slopes for run in runs)
        if slopes < share_of_slopes(runs) * (total - slopes):
            return Plan(len(runs), runs[0].popsize, allowance=total // SLOPES_SHARE + 1, begin="slopes")
        counted = [run for run in runs if run.begin != "slopes"]
        if len(counted) > self.restarts:
            return None
        ranked = [run for run in counted if 2 * (run.by_slopes + run.by_coordinates) < run.evaluations]
        plan = self.next_population(ranked, key) if ranked else Plan(len(runs), runs[0].popsize)
        return None if plan is None else replace(plan, number=len(runs), begin="ranks")

    @abstractmethod
    def next_population(self, runs: Sequence[SingleRun], key: Key) -> Plan | None:
        """Return the plan for the restart of a population after ``runs``, or None."""

    def populations(self, first: int, limit: float) -> list[int]:
        """Return the increasing populations after the ``first``, up to ``limit``."""
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

    def next_population(self, runs: Sequence[SingleRun], key: Key) -> Plan | None:
        """Return the plan for the next restart, with ``factor`` times the population; None after the last."""
        done = len(runs)
        if done > self.restarts:
            return None
        return Plan(done, round(runs[0].popsize * self.factor**done))


@final
@dataclass(frozen=True)
class BIPOP(Schedule):
    """Large populations as in IPOP, alternating with small ones (Hansen 2009).

    The kind that has used fewer evaluations comes next. A small population lies between the first and half of
    the last large one, starts with a step size between sigma0 / 100 and sigma0, and gets half of the
    evaluations that the last large one used.
    """

    name = "bipop"

    def next_population(self, runs: Sequence[SingleRun], key: Key) -> Plan | None:
        """Return the plan for the next restart; None after the last.

        It uses a small population as long as the small ones have used fewer evaluations than the large ones,
        and the next large population otherwise.
        """
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


def share_of_slopes(runs: Sequence[SingleRun]) -> float:
    """Return the evaluations that quasi-Newton deserves in restarts, relative to the other search.

    The share is halved by each of its restarts that ends above the median of the other runs, and doubled
    again by each other one.
    """
    share = most = max(run.share for run in runs)
    usual = float(np.median([run.best_fun for run in runs if run.begin != "slopes"]))
    for run in runs:
        if run.begin == "slopes":
            share = min(most, 2 * share) if run.best_fun <= usual else share / 2
    return share


def schedule(restarts: Any) -> Schedule:
    """Return the schedule for ``restarts``: a number, "ipop", "bipop", "bipop:5", or a schedule."""
    if isinstance(restarts, Schedule):
        return restarts
    if isinstance(restarts, str):
        name, _, count = restarts.partition(":")
        if name in SCHEDULES and (count == "" or count.isdigit()):
            return SCHEDULES[name](int(count)) if count else SCHEDULES[name]()
    elif isinstance(restarts, int | np.integer) and not isinstance(restarts, bool) and restarts >= 0:
        return IPOP(int(restarts))
    raise ValueError(
        "restarts must be a whole number (0 for none), 'ipop', 'bipop', or one of these with a number "
        f"such as 'bipop:5'; got {shown(restarts)}"
    )


def memory_warning(schedule: Schedule, strategy: Strategy, first: int, maxfevals: int | None) -> str:
    """Return a warning if populations of later restarts do not fit into memory; empty if all fit."""
    largest = 2**50 // strategy.n  # candidates; exceeds any memory
    sizes = schedule.populations(first, largest if maxfevals is None else min(largest, maxfevals))
    itemsize = strategy.dtype.itemsize
    needed = [strategy.memory(strategy.n, size, itemsize) for size in sizes]
    if not needed or needed[-1] < memory.UNCHECKED_BELOW:
        return ""
    available = memory.available_memory()
    if available is None or needed[-1] <= available:
        return ""
    fit = sum(size <= available for size in needed)
    return (
        f"restarts increase the population up to {sizes[-1]:,}, for which {strategy.name} needs about "
        f"{readable_size(needed[-1])} of memory, but {readable_size(available)} are free. Only {fit} of "
        f"{len(sizes)} larger populations fit; the run then ends with the best point so far"
    )


def restart_key(key: Key, number: int) -> Key:
    """Return the key of a restart; number 0, the first run, has the key of the run itself."""
    if number == 0:
        return key
    words = np.random.SeedSequence([*key, number]).generate_state(2, np.uint64)
    return int(words[0]), int(words[1])


def restart_generator(key: Key, number: int) -> np.random.Generator:
    """Return a generator for the plan and the start of a restart, independent of its samples."""
    return np.random.default_rng(np.random.SeedSequence([*key, number, 1]))


def restart_point(x0: Array, spread: Array | float, key: Key, number: int, box: Any) -> Array:
    """Return the start of a restart: uniform between finite bounds, normal around ``x0`` otherwise."""
    if number == 0:
        return x0
    generator = restart_generator(key, number)
    generator.random(2)  # skip the numbers used by BIPOP
    start = x0 + spread * generator.standard_normal(len(x0))
    if box is not None:
        width = box.upper - box.lower
        closed = np.isfinite(width)
        uniform = generator.random(len(x0))
        start = box.inside(start.astype(box.lower.dtype))
        start[closed] = box.lower[closed] + uniform[closed] * width[closed]
    return start
