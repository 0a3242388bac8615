"""Records as the rules and the figures ask for them: medians, counts, growth."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmma.experiments.analysis.attacks import KINDS as OF_ATTACKS
from lmma.experiments.analysis.attacks import Attacks
from lmma.experiments.tasks import SIGMA0, TARGET

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    """The runs of one method on one problem in one dimension."""

    runs: int
    evaluations: tuple[int, ...]  # to the target, of the runs that reached it
    seconds: tuple[float, ...]  # CPU time of the same runs
    spent: int  # the most evaluations a run without success was given; 0 if all reached the target

    @property
    def solved(self) -> bool:
        """Whether any run reached the target (one in four ends in Rosenbrock's local optimum)."""
        return bool(self.evaluations)

    @property
    def median(self) -> float:
        """Median evaluations of the runs that reached the target; infinity if none did."""
        return float(np.median(self.evaluations)) if self.evaluations else math.inf

    @property
    def median_seconds(self) -> float:
        """Median seconds of the runs that reached the target; infinity if none did."""
        return float(np.median(self.seconds)) if self.seconds else math.inf


class Evidence:
    """All records of the paper's protocol, by what they are about.

    Parameters
    ----------
    records : iterable of mappings
        What the store holds.
    smallest : int
        Runs in fewer dimensions are left out; the paper speaks of n = 128 and more.
    protocol : (target, sigma0)
        Runs under another one are left out.
    """

    def __init__(
        self,
        records: Iterable[Record],
        smallest: int = 1,
        protocol: tuple[float, float] | None = None,
    ) -> None:
        protocol = (TARGET, SIGMA0) if protocol is None else protocol
        runs: dict[tuple[str, str, int], dict[int, Record]] = defaultdict(dict)
        self._timings: dict[str, dict[int, float]] = defaultdict(dict)
        self._memory: dict[str, dict[int, float]] = defaultdict(dict)
        self._differences: dict[tuple[str, str], list[float]] = defaultdict(list)
        attacks: list[Record] = []
        for record in records:
            spec, kind = record["spec"], record["kind"]
            if kind == "run":
                if (spec["target"], spec["sigma0"]) != protocol or spec["n"] < smallest:
                    continue
                same = runs[spec["problem"], spec["method"], spec["n"]]
                before = same.get(spec["seed"])
                # The same seed under two budgets is one run, cut shorter in one case.
                if before is None or before["evaluations"] <= record["evaluations"]:
                    same[spec["seed"]] = record
            elif kind == "timing":
                self._timings[spec["method"]][spec["n"]] = record["seconds"]["best"]
            elif kind == "memory":
                self._memory[spec["method"]][spec["n"]] = record["peak_bytes"]
            elif kind == "invariance":
                self._differences[spec["method"], spec["change"]].append(record["difference"])
            elif kind in OF_ATTACKS:
                attacks.append(record)
        self.attacks = Attacks(attacks)
        self.runs = {
            key: [by_seed[seed] for seed in sorted(by_seed)] for key, by_seed in sorted(runs.items())
        }

    def sample(self, problem: str, method: str, n: int) -> Sample | None:
        """Return the runs of one method on one problem in one dimension, or None."""
        records = self.runs.get((problem, method, n))
        if not records:
            return None
        reached = [record for record in records if record["success"]]
        return Sample(
            len(records),
            tuple(record["evaluations_to_target"] for record in reached),
            tuple(record["cpu_seconds"] for record in reached),
            max((record["evaluations"] for record in records if not record["success"]), default=0),
        )

    def dims(self, problem: str, method: str) -> list[int]:
        """Return the dimensions in which a method ran on a problem."""
        return sorted(n for p, m, n in self.runs if (p, m) == (problem, method))

    def common(self, problem: str, one: str, two: str) -> list[int]:
        """Return the dimensions in which both methods solved the problem."""
        both = set(self.dims(problem, one)) & set(self.dims(problem, two))
        return sorted(n for n in both if all(self._solved(problem, method, n) for method in (one, two)))

    def _solved(self, problem: str, method: str, n: int) -> bool:
        sample = self.sample(problem, method, n)
        return sample is not None and sample.solved

    def medians(self, problem: str, method: str) -> dict[int, float]:
        """Return the median evaluations in each dimension that was solved."""
        samples = {n: self.sample(problem, method, n) for n in self.dims(problem, method)}
        return {n: s.median for n, s in samples.items() if s is not None and s.solved}

    def timings(self, method: str) -> dict[int, float]:
        """Return the best seconds a sample over n."""
        return dict(sorted(self._timings.get(method, {}).items()))

    def memory(self, method: str) -> dict[int, float]:
        """Return the peak bytes over n."""
        return dict(sorted(self._memory.get(method, {}).items()))

    def differences(self, method: str, change: str) -> list[float]:
        """Return how far runs parted that ought to be one."""
        return list(self._differences.get((method, change), ()))


def growth(points: Mapping[int, float], dims: Sequence[int] | None = None) -> float | None:
    """Return the power of n with which ``points`` grow, fitted on log-log axes; None below two points."""
    chosen = sorted(points if dims is None else set(points) & set(dims))
    if len(chosen) < 2:
        return None
    slope = np.polyfit(np.log(chosen), np.log([points[n] for n in chosen]), 1)[0]
    return float(slope)
